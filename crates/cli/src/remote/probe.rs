//! How a server is, as its doctor asks: the answers themselves, also where they refuse.

use std::time::{Duration, Instant};

use reqwest::header::DATE;
use windlass_core::Millis;

use super::question::Question;
use super::server::Server;
use super::shapes::moment;
use crate::exit::Failure;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server answered.
pub(crate) struct Probed {
    pub(crate) status: u16,
    /// The server's time, to the second.
    pub(crate) date: Option<Millis>,
    /// How long it took.
    pub(crate) took: Duration,
    pub(crate) body: Vec<u8>,
}

/// Asks a server for a place of its own, such as `health/ready`.
///
/// # Errors
/// It does not answer.
pub(crate) fn probe(server: &Server, parts: &[&str]) -> Result<Probed, Failure> {
    let question = Question {
        time: Some(PATIENCE),
        ..Question::get(server.place(parts))
    };
    let asked = server.clone();
    server.wait(async move {
        let began = Instant::now();
        let answer = asked.send(question).await?;
        let took = began.elapsed();
        let date = answer.headers().get(DATE);
        let date = date.and_then(|date| time_of(date.to_str().ok()?));
        let status = answer.status().as_u16();
        let body = answer.bytes().await;
        let address = asked.address();
        let body = body.map_err(|error| super::failures::unreachable(address, &error))?;
        Ok(Probed {
            status,
            date,
            took,
            body: body.into(),
        })
    })
}

/// The time in `Sun, 06 Nov 1994 08:49:37 GMT`.
fn time_of(text: &str) -> Option<Millis> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let time = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    moment(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_answer_is_read() {
        let known = time_of("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(known, Some(Millis(784_111_777_000)));
        for wrong in ["", "now", "Sun, 06 Nuv 1994 08:49:37 GMT"] {
            assert_eq!(time_of(wrong), None);
        }
    }
}
