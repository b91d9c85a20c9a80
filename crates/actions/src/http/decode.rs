//! Decompression with a bound: the decompressed bytes of an answer are counted while they are
//! made, so that a few bytes cannot become gigabytes.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use windlass_engine::ActionError;

/// Bytes that are decompressed at once while an answer is streamed: they become a thousand times
/// as many at most.
const STEP_BYTES: usize = 4096;

/// How many encodings are taken off: each costs as much as the answer is long.
const MOST_ENCODINGS: usize = 5;

/// Takes the encodings of a body off, the last one first (RFC 9110, section 8.4).
pub(super) fn decode(
    encodings: &str,
    bytes: Vec<u8>,
    limit: usize,
) -> Result<Vec<u8>, ActionError> {
    let mut bytes = bytes;
    for encoding in names(encodings)?.into_iter().rev() {
        if bytes.is_empty() {
            break;
        }
        let mut decoder = Decoder::of(&encoding, bytes[0], limit)?;
        let decoded = decoder.write_all(&bytes).and_then(|()| decoder.finish());
        bytes = decoded.map_err(|error| wrong(&error, limit))?.bytes;
    }
    Ok(bytes)
}

/// The encodings of a header, without those that change nothing.
fn names(encodings: &str) -> Result<Vec<String>, ActionError> {
    let names = encodings
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase());
    let is_one = |name: &String| !matches!(name.as_str(), "" | "identity");
    let names: Vec<String> = names.filter(is_one).collect();
    match names.len() {
        0..=MOST_ENCODINGS => Ok(names),
        count => {
            let message = format!("the answer is compressed {count} times");
            Err(ActionError::failed("HTTP_ENCODING", message))
        }
    }
}

/// Takes the encoding of a body off while it comes.
pub(super) struct Stream {
    encoding: Option<String>,
    decoder: Option<Decoder>,
}

impl Stream {
    pub(super) fn new(encodings: &str) -> Result<Self, ActionError> {
        let mut names = names(encodings)?;
        if names.len() > 1 {
            let message = "the answer is compressed more than once, and is not stored as a blob";
            return Err(ActionError::failed("HTTP_ENCODING", message));
        }
        Ok(Self {
            encoding: names.pop(),
            decoder: None,
        })
    }

    pub(super) fn is_plain(&self) -> bool {
        self.encoding.is_none()
    }

    /// The pieces of a chunk that are decoded one by one.
    pub(super) fn pieces<'b>(&self, chunk: &'b [u8]) -> std::slice::Chunks<'b, u8> {
        let size = if self.is_plain() {
            chunk.len()
        } else {
            STEP_BYTES
        };
        chunk.chunks(size.max(1))
    }

    /// What a piece becomes.
    pub(super) fn decode(&mut self, piece: &[u8]) -> Result<Vec<u8>, ActionError> {
        let (Some(encoding), [first, ..]) = (&self.encoding, piece) else {
            return Ok(piece.to_vec());
        };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::of(encoding, *first, usize::MAX)?),
        };
        let written = decoder.write_all(piece);
        written.map_err(|error| wrong(&error, usize::MAX))?;
        Ok(std::mem::take(&mut decoder.sink().bytes))
    }

    /// What is left at the end of the body.
    pub(super) fn finish(self) -> Result<Vec<u8>, ActionError> {
        let Some(decoder) = self.decoder else {
            return Ok(Vec::new());
        };
        let rest = decoder.finish();
        Ok(rest.map_err(|error| wrong(&error, usize::MAX))?.bytes)
    }
}

/// One encoding, taken off into a bounded buffer.
enum Decoder {
    Gzip(MultiGzDecoder<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
    Deflate(DeflateDecoder<Bounded>),
}

impl Decoder {
    fn of(encoding: &str, first: u8, limit: usize) -> Result<Self, ActionError> {
        let sink = Bounded::new(limit);
        match encoding {
            "gzip" | "x-gzip" => Ok(Self::Gzip(MultiGzDecoder::new(sink))),
            // Some servers leave out the zlib wrapper that the name stands for.
            "deflate" if first & 0x0f == 8 => Ok(Self::Zlib(ZlibDecoder::new(sink))),
            "deflate" => Ok(Self::Deflate(DeflateDecoder::new(sink))),
            other => {
                let message =
                    format!("the answer is compressed with '{other}', which is not known");
                Err(ActionError::failed("HTTP_ENCODING", message))
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.write_all(bytes),
            Self::Zlib(decoder) => decoder.write_all(bytes),
            Self::Deflate(decoder) => decoder.write_all(bytes),
        }
    }

    fn sink(&mut self) -> &mut Bounded {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => decoder.get_mut(),
        }
    }

    fn finish(self) -> io::Result<Bounded> {
        match self {
            Self::Gzip(decoder) => decoder.finish(),
            Self::Zlib(decoder) => decoder.finish(),
            Self::Deflate(decoder) => decoder.finish(),
        }
    }
}

fn wrong(error: &io::Error, limit: usize) -> ActionError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        let message = format!("the answer has more than {limit} bytes when it is decompressed");
        return ActionError::failed("OUTPUT_LIMIT", message);
    }
    let message = format!("the answer cannot be decompressed: {error}");
    ActionError::retriable("HTTP_ENCODING", message)
}

/// Takes so many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Bounded {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("written");
        encoder.finish().expect("finished")
    }

    #[test]
    fn encodings_come_off_within_the_bound() {
        let text = vec![b'x'; 100_000];
        let once = gzip(&text);
        assert!(once.len() < 1000);
        assert_eq!(
            decode("gzip", once.clone(), 100_000).expect("decoded"),
            text
        );
        let twice = gzip(&once);
        assert_eq!(decode("gzip, gzip", twice, 100_000).expect("decoded"), text);
        let error = decode("gzip", once.clone(), 99_999).expect_err("too large");
        assert_eq!(&*error.code, "OUTPUT_LIMIT");
        let error = decode("gzip", once[..once.len() / 2].to_vec(), 100_000);
        assert_eq!(&*error.expect_err("cut off").code, "HTTP_ENCODING");
        let error = decode("br", once, 100_000).expect_err("unknown");
        assert_eq!((&*error.code, error.retriable), ("HTTP_ENCODING", false));
        assert_eq!(decode("gzip", Vec::new(), 1).expect("empty"), b"");
        let error = decode(&"gzip,".repeat(6), gzip(b""), 100).expect_err("too many");
        assert_eq!((&*error.code, error.retriable), ("HTTP_ENCODING", false));
    }

    fn streamed(encodings: &str, bytes: &[u8], chunk: usize) -> Result<Vec<u8>, ActionError> {
        let mut stream = Stream::new(encodings)?;
        let mut all = Vec::new();
        for chunk in bytes.chunks(chunk) {
            for piece in stream.pieces(chunk).collect::<Vec<_>>() {
                let decoded = stream.decode(piece)?;
                assert!(decoded.len() <= 1200 * STEP_BYTES, "{}", decoded.len());
                all.extend(decoded);
            }
        }
        all.extend(stream.finish()?);
        Ok(all)
    }

    #[test]
    fn a_stream_is_decoded_in_small_steps() {
        let text = vec![b'x'; 30_000_000];
        let once = gzip(&text);
        for chunk in [1000, 16_384, usize::MAX] {
            let chunk = chunk.min(once.len());
            assert_eq!(streamed("gzip", &once, chunk).expect("decoded"), text);
        }
        assert_eq!(streamed("identity", b"abc", 2).expect("plain"), b"abc");
        let cut = streamed("gzip", &once[..once.len() - 9], 1000);
        assert_eq!(&*cut.expect_err("cut off").code, "HTTP_ENCODING");
        let twice = streamed("gzip, gzip", &once, 1000).expect_err("refused");
        assert_eq!((&*twice.code, twice.retriable), ("HTTP_ENCODING", false));
    }
}
