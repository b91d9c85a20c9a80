//! Server-sent events, read line by line.

/// Lines longer than this are no events of ours.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// What a stream said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamMessage {
    /// Something happened; the log has it.
    Event,
    /// The run has ended.
    Finished,
    /// The stream ends, and there is more to come: ask again.
    Again,
}

/// Puts events together from pieces of a stream.
#[derive(Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    kind: String,
    has_data: bool,
}

impl Reader {
    /// Takes a piece; gives what it completes, in order.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<StreamMessage> {
        let mut told = Vec::new();
        for &byte in piece {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    told.extend(self.read(&line));
                }
                b'\r' => {}
                _ if self.line.len() < LINE_BYTES => self.line.push(byte),
                _ => {}
            }
        }
        told
    }

    fn read(&mut self, line: &[u8]) -> Option<StreamMessage> {
        if line.is_empty() {
            let kind = std::mem::take(&mut self.kind);
            let has_data = std::mem::take(&mut self.has_data);
            let told = match kind.as_str() {
                "end" | "RunFinished" => StreamMessage::Finished,
                "lagged" | "draining" | "error" => StreamMessage::Again,
                _ => StreamMessage::Event,
            };
            return has_data.then_some(told);
        }
        if let Some(kind) = line.strip_prefix(b"event:") {
            self.kind = String::from_utf8_lossy(kind).trim().to_owned();
        }
        self.has_data |= line.starts_with(b"data:");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let text = b": \n\nevent: NodeSucceeded\nid: 17\ndata: {}\n\nevent: lagged\ndata: {}\n\n\
            event: draining\ndata: {}\n\nevent: end\ndata: {}\n\n";
        let expected = [
            StreamMessage::Event,
            StreamMessage::Again,
            StreamMessage::Again,
            StreamMessage::Finished,
        ];
        for size in [1, 3, 7, text.len()] {
            let mut reader = Reader::default();
            let told: Vec<StreamMessage> =
                text.chunks(size).flat_map(|it| reader.take(it)).collect();
            assert_eq!(told, expected, "{size}");
        }
    }
}
