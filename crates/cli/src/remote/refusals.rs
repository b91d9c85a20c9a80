//! What a store that only reads over HTTP refuses: commands that write ask the server instead.

use windlass_core::{Digest, Millis, RunId};
use windlass_store::{
    Admission, Audit, AuditEntry, Error, GateCount, KeyValue, Note, Partitions, Pending, Retention,
    RunRow, TenantFilter,
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
    fn waiting_tenants(&self, _: &Partitions) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>> {
        refused()
    }

    fn waiting(
        &self,
        _: &Partitions,
        _: Option<&str>,
        _: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn park(&self, _: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn unpark(&self, _: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn parked(&self, _: &Partitions, _: &str, _: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn parked_gates(
        &self,
        _: &Partitions,
    ) -> Pending<'_, Result<Vec<(Option<Box<str>>, Box<str>)>, Error>> {
        refused()
    }

    fn begun(
        &self,
        _: &Partitions,
        _: Option<RunId>,
        _: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn without_place(
        &self,
        _: &Partitions,
        _: Option<RunId>,
        _: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>> {
        refused()
    }

    fn at_gate(&self, _: &str, _: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn depth(&self, _: u64) -> Pending<'_, Result<u64, Error>> {
        refused()
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
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>> {
        refused()
    }
}

impl KeyValue for RemoteStore {
    fn keep_note(&self, _: &str, _: &str, _: Vec<u8>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn note_at(&self, _: &str, _: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        refused()
    }

    fn notes(&self, _: &str, _: Option<&str>, _: usize) -> Pending<'_, Result<Vec<Note>, Error>> {
        refused()
    }

    fn forget_note(&self, _: &str, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

impl Retention for RemoteStore {
    fn ended(&self, _: Millis, _: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        refused()
    }

    fn ended_count(&self) -> Pending<'_, Result<u64, Error>> {
        refused()
    }

    fn forget(&self, _: Vec<RunId>, _: bool) -> Pending<'_, Result<u64, Error>> {
        refused()
    }

    fn bytes(&self) -> Pending<'_, Result<u64, Error>> {
        refused()
    }

    fn vacuum(&self) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn uses(&self, _: RunId, _: &Digest) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}
