//! Work that blocks, on a thread for such work.

use tokio::task::JoinError;
use windlass_store::may_block;

/// Does work that blocks, beside the tasks of the runtime. A thread that waits in
/// [`windlass_store::block_on`] may block, and does the work itself: if it left the work to another
/// thread, and the runtime stopped before that began, it would wait for ever, and the end of the
/// runtime for it.
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
    if may_block() {
        return Ok(work());
    }
    match tokio::task::spawn_blocking(work).await {
        Err(error) if error.is_cancelled() => std::future::pending().await,
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use windlass_store::block_on;

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

    #[test]
    fn a_blocking_thread_ends_its_work_after_the_runtime_has_stopped() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (begin, begins) = mpsc::channel::<()>();
        let (stop, stopped) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel();
        runtime.spawn(blocking(move || {
            begin.send(()).expect("the test waits");
            stopped.recv().expect("the runtime has stopped");
            // Work that needs other work of this kind, as reading a run needs its parent.
            let done = block_on(async { blocking(|| 7).await });
            answer.send(done.ok()).expect("the test waits");
        }));
        begins.recv().expect("the work has begun");
        runtime.shutdown_background();
        stop.send(()).expect("the work waits");
        let answered = answered.recv_timeout(Duration::from_secs(30));
        assert_eq!(answered, Ok(Some(7)));
    }
}
