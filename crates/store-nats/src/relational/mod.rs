//! The relational traits, taken from the database. What derives from the log is read after the
//! database has what this process published; what other processes published may be missing for a
//! moment, and their bells ring only when it is there.

mod catalogue;
mod rows;
mod slots;

use std::future::Future;

use windlass_store::{Error, Pending};
use windlass_store_postgres::PostgresStore;

use crate::store::NatsStore;

impl NatsStore {
    /// Asks the database once it has what this process published.
    pub(crate) fn after_own<'a, T: Send + 'static, F>(
        &self,
        ask: impl FnOnce(PostgresStore) -> F + Send + 'static,
    ) -> Pending<'a, Result<T, Error>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.task(move |inner| async move {
            inner.barrier().await?;
            ask(inner.postgres.clone()).await
        })
    }
}
