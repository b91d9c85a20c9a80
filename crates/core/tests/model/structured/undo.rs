//! Compensations (semantics §11): one after the other, the last to succeed first.

use super::Word;
use super::run::Model;
use crate::model::Life;

/// The compensations of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Undoing {
    /// How the run ends after them.
    pub(crate) end: Option<Life>,
    /// Still to be done, the next one first.
    pub(crate) left: Vec<String>,
    pub(crate) attempt: u32,
    /// In the order in which they ended, with whether they succeeded.
    pub(crate) done: Vec<(String, bool)>,
}

impl Model {
    /// Ends the run, after its compensations if there are any.
    pub(crate) fn end_after_undoing(&mut self, life: Life) {
        let undoes = match life {
            Life::Failed => self.flow.compensation != "manual",
            Life::Cancelled => self.flow.compensation == "onFailureOrCancel",
            _ => false,
        };
        if undoes {
            self.undoing.left = self.to_undo();
        }
        if self.undoing.left.is_empty() {
            self.life = life;
        } else {
            self.undoing.end = Some(life);
            self.undoing.attempt = 1;
        }
    }

    /// A worker's word on the compensation that is next.
    pub(crate) fn undone(&mut self, word: &Word) -> bool {
        let Some(path) = self.undoing.left.first().cloned() else {
            return false;
        };
        let (scope, id) = self.root.find(&path).expect("an instance");
        let tries = scope.definition(&id).undo.expect("a compensation");
        if *word == Word::Retriable && self.undoing.attempt < tries {
            self.undoing.attempt += 1;
            return true;
        }
        self.undoing.left.remove(0);
        self.undoing.attempt = 1;
        let succeeded = matches!(word, Word::Success(_) | Word::Skip);
        self.undoing.done.push((path, succeeded));
        if self.undoing.left.is_empty() {
            self.life = self.undoing.end.expect("how the run ends");
        }
        true
    }

    /// Semantics §11's word for where the compensations stand.
    pub(crate) fn compensation(&self) -> Option<&'static str> {
        if !self.undoing.left.is_empty() {
            Some("running")
        } else if self.undoing.done.is_empty() {
            None
        } else if self.undoing.done.iter().all(|(_, succeeded)| *succeeded) {
            Some("complete")
        } else {
            Some("incomplete")
        }
    }

    /// What has a compensation and succeeded, the last to succeed first.
    fn to_undo(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.completed.clone();
        paths.retain(|path| {
            let (scope, id) = self.root.find(path).expect("an instance");
            scope.definition(&id).undo.is_some()
        });
        paths.reverse();
        paths
    }
}
