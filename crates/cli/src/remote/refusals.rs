//! What a store that only reads over HTTP does not do: whoever acts asks the server.

use windlass_core::{Digest, Millis, RunId};
use windlass_store::{
    Admission, Audit, AuditEntry, Error, Note, Notes, Pending, Retention, RunRow, TenantFilter,
};

use super::store::RemoteStore;

/// The refusal itself.
pub(super) fn refusal() -> Error {
    Error::Unavailable("it is read over HTTP, and changed by asking the server".to_owned())
}

/// The refusal as an answer to wait for.
pub(super) fn refused<T: Send + 'static>() -> Pending<'static, Result<T, Error>> {
    Box::pin(std::future::ready(Err(refusal())))
}

impl Admission for RemoteStore {
    fn waiting_tenants(&self) -> Result<Vec<Option<Box<str>>>, Error> {
        Err(refusal())
    }

    fn waiting(&self, _: Option<&str>, _: usize) -> Result<Vec<RunRow>, Error> {
        Err(refusal())
    }

    fn put_aside(&self, _: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn aside(&self, _: &str, _: usize) -> Result<Vec<RunRow>, Error> {
        Err(refusal())
    }

    fn aside_gates(&self) -> Result<Vec<(Option<Box<str>>, Box<str>)>, Error> {
        Err(refusal())
    }

    fn begun(&self, _: Option<RunId>, _: usize) -> Result<Vec<RunRow>, Error> {
        Err(refusal())
    }

    fn gates(&self) -> Result<Vec<(Box<str>, u32)>, Error> {
        Err(refusal())
    }

    fn at_gate(&self, _: &str, _: usize) -> Result<Vec<RunRow>, Error> {
        Err(refusal())
    }

    fn depth(&self, _: u64) -> Result<u64, Error> {
        Err(refusal())
    }
}

impl Audit for RemoteStore {
    fn note(&self, _: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn audit(
        &self,
        _: &TenantFilter,
        _: Option<u64>,
        _: usize,
    ) -> Result<Vec<(u64, AuditEntry)>, Error> {
        Err(refusal())
    }
}

impl Notes for RemoteStore {
    fn keep_note(&self, _: &str, _: &str, _: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn note_at(&self, _: &str, _: &str) -> Result<Option<Vec<u8>>, Error> {
        Err(refusal())
    }

    fn notes(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<Note>, Error> {
        Err(refusal())
    }

    fn forget_note(&self, _: &str, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

impl Retention for RemoteStore {
    fn ended(&self, _: Millis, _: usize) -> Result<Vec<RunRow>, Error> {
        Err(refusal())
    }

    fn ended_count(&self) -> Result<u64, Error> {
        Err(refusal())
    }

    fn forget(&self, _: Vec<RunId>, _: bool) -> Pending<'_, Result<u64, Error>> {
        refused()
    }

    fn bytes(&self) -> Result<u64, Error> {
        Err(refusal())
    }

    fn give_back(&self) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn uses(&self, _: RunId, _: &Digest) -> Result<bool, Error> {
        Err(refusal())
    }
}
