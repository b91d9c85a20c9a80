//! Decompression with a bound: the decompressed bytes of an answer are counted while they are
//! made, so that a few bytes cannot become gigabytes.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use windlass_engine::ActionError;

/// Takes the encodings of a body off, the last one first (RFC 9110, section 8.4).
pub(super) fn decode(
    encodings: &str,
    bytes: Vec<u8>,
    limit: usize,
) -> Result<Vec<u8>, ActionError> {
    let mut bytes = bytes;
    for encoding in encodings.split(',').rev() {
        if bytes.is_empty() {
            break;
        }
        let encoding = encoding.trim().to_ascii_lowercase();
        let decoded = match encoding.as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => {
                let mut decoder = MultiGzDecoder::new(Bounded::new(limit));
                let written = decoder.write_all(&bytes);
                written.and_then(|()| decoder.finish())
            }
            // Some servers leave out the zlib wrapper that the name stands for.
            "deflate" if bytes[0] & 0x0f == 8 => {
                let mut decoder = ZlibDecoder::new(Bounded::new(limit));
                let written = decoder.write_all(&bytes);
                written.and_then(|()| decoder.finish())
            }
            "deflate" => {
                let mut decoder = DeflateDecoder::new(Bounded::new(limit));
                let written = decoder.write_all(&bytes);
                written.and_then(|()| decoder.finish())
            }
            other => {
                let message =
                    format!("the answer is compressed with '{other}', which is not known");
                return Err(ActionError::failed("HTTP_ENCODING", message));
            }
        };
        bytes = decoded.map_err(|error| wrong(&error, limit))?.bytes;
    }
    Ok(bytes)
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
    }
}
