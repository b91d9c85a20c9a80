//! Work that blocks, on a thread for such work.

use tokio::task::JoinError;

/// Does work that blocks, beside the tasks of the runtime.
///
/// A runtime that stops before the work has begun gives no answer, and neither does this: the
/// waiting task is dropped with the runtime. It must not go on, because a missing answer would
/// be taken for one about the run, and a command be refused because its owner was stopping.
///
/// # Errors
/// The work panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match tokio::task::spawn_blocking(work).await {
        Err(error) if error.is_cancelled() => std::future::pending().await,
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_is_told() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let panicked = runtime.block_on(blocking(|| panic!("of this work")));
        assert!(panicked.is_err_and(|error: JoinError| error.is_panic()));
    }

    #[test]
    fn a_runtime_that_has_stopped_gives_no_answer() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (begin, begins) = mpsc::channel::<()>();
        let (stop, stopped) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel();
        runtime.spawn(async move {
            begin.send(()).expect("the test waits");
            stopped.recv().expect("the runtime has stopped");
            answer.send(blocking(|| ()).await.is_ok())
        });
        begins.recv().expect("the task is at work");
        runtime.shutdown_background();
        stop.send(()).expect("the task waits");
        // The task is dropped without having gone on.
        assert_eq!(answered.recv(), Err(mpsc::RecvError));
    }
}
