//! A command that asks a server works on no run: it holds no lease, has no work and hears no
//! bells.

use windlass_store::{
    Bell, Error, ExpiredSession, GatePlace, ItemState, JoinedSession, LeaseAnswer, LeaseTerm,
    LeasedItem, Leases, Listener, LiveSession, Partition, Partitions, Pending, Places, Pull,
    SessionId, TakePlace, TakenPartition, Wakes, WorkItem, WorkKey, WorkLease, WorkQueue,
};

use super::refusals::refused;
use super::store::RemoteStore;

impl Leases for RemoteStore {
    fn join(&self, _: &str, _: u64) -> Pending<'_, Result<JoinedSession, Error>> {
        refused()
    }

    fn renew(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn take(
        &self,
        _: SessionId,
        _: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        refused()
    }

    fn give(&self, _: SessionId, _: &[Partition]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        refused()
    }

    fn leave(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        refused()
    }

    fn forget_session(&self, _: SessionId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

impl Places for RemoteStore {
    fn take_places(&self, _: Vec<TakePlace>) -> Pending<'_, Result<Vec<bool>, Error>> {
        refused()
    }

    fn give_places(&self, _: Vec<GatePlace>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn places(
        &self,
        _: &Partitions,
        _: Option<&GatePlace>,
        _: usize,
    ) -> Pending<'_, Result<Vec<GatePlace>, Error>> {
        refused()
    }
}

impl Wakes for RemoteStore {
    fn ring(&self, _: &[Bell]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn listen(&self) -> Pending<'_, Result<Box<dyn Listener>, Error>> {
        refused()
    }
}

impl WorkQueue for RemoteStore {
    fn push(&self, _: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn pull(&self, _: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        refused()
    }

    fn known(&self, _: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        refused()
    }

    fn renew_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn complete(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn return_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        refused()
    }

    fn resume_item(
        &self,
        _: Option<&str>,
        _: WorkKey,
        _: &str,
        _: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        refused()
    }

    fn stop(&self, _: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    fn withdraw(&self, _: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        refused()
    }
}
