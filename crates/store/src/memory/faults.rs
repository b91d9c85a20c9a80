//! Appends that go wrong, for tests of the code that drives a store: a backend across a
//! network may not know whether it wrote, may write after it was asked, or may lose what it
//! has acknowledged.

use windlass_core::RunId;

use super::{MemoryStore, State};
use crate::{Append, AppendError, Appended, Error};

/// What happens to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// No fault.
    Nothing,
    /// It is written, and the answer is lost.
    AnswerLost,
    /// It is lost, and so is the answer.
    NotWritten,
    /// The answer is lost, and it is written only once the caller has asked for the head.
    WrittenLate,
    /// Another process writes first.
    Overtaken,
    /// It is not written, the answer is lost, and so is the record before it.
    CommitLost,
    /// It is refused: the store cannot write.
    Refused,
}

impl MemoryStore {
    /// Gives the next appends these faults, one each.
    pub fn fail_appends(&self, faults: impl IntoIterator<Item = AppendFault>) {
        self.state().faults.extend(faults);
    }

    /// How many of those faults have not happened yet.
    pub fn faults_left(&self) -> usize {
        self.state().faults.len()
    }
}

impl State {
    pub(super) fn append_or_fail(&mut self, append: Append) -> Result<Appended, AppendError> {
        let run = append.run;
        let unknown = |append: &Append| AppendError::Unknown {
            error: Error::Timeout("as the test wants".to_owned()),
            append: Some(Box::new(append.clone())),
        };
        match self.faults.pop_front() {
            None | Some(AppendFault::Nothing) => self.append(append),
            Some(AppendFault::AnswerLost) => {
                let answer = unknown(&append);
                self.append(append).and(Err(answer))
            }
            Some(AppendFault::NotWritten) => Err(unknown(&append)),
            Some(AppendFault::WrittenLate) => {
                let answer = unknown(&append);
                self.late.push(append);
                Err(answer)
            }
            Some(AppendFault::Overtaken) => {
                let writer = crate::WriterId(!append.writer.0);
                self.append(Append {
                    writer,
                    ..append.clone()
                })?;
                self.append(append)
            }
            Some(AppendFault::Refused) => {
                let full = Error::Full("as the test wants".to_owned());
                Err(AppendError::Failed(full))
            }
            Some(AppendFault::CommitLost) => {
                if let Some(stored) = self.runs.get_mut(&run) {
                    stored.records.pop();
                }
                Err(unknown(&append))
            }
        }
    }

    /// A late append of a run becomes durable, unless it is too late.
    pub(super) fn write_late(&mut self, run: RunId) {
        let (mine, others) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|append: &Append| append.run == run);
        self.late = others;
        for append in mine {
            let _ = self.append(append);
        }
    }
}
