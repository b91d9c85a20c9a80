//! Runs to explore, for `windlass dev --demo`: one that is done, one that failed inside a child
//! run of a loop, one that waits for approval, and one in progress. Request ids make them the
//! same runs when the command is given again.

use windlass_engine::{Clock as _, Engine, StartRequest, SystemClock};
use windlass_service::launch::{Launch, launch, publish};
use windlass_service::source::prepare_text;

use crate::exit::Failure;

/// What only other workflows start.
const CHILD: &str = include_str!("demo/payment.json");

/// What is started, in this order: the newest run is first in lists.
const STARTED: [&str; 4] = [
    include_str!("demo/greeting.json"),
    include_str!("demo/import.json"),
    include_str!("demo/approval.json"),
    include_str!("demo/orders.json"),
];

/// Publishes the workflows and starts their runs.
pub(super) async fn start(engine: &Engine) -> Result<(), Failure> {
    publish(engine, None, prepare_text(CHILD.as_bytes())?).await?;
    for text in STARTED {
        let definition = prepare_text(text.as_bytes())?;
        let request = StartRequest {
            request_id: Some("demo".into()),
            ..StartRequest::default()
        };
        let new = Launch {
            request,
            ..Launch::new(definition, SystemClock.new_run_id())
        };
        launch(engine, new).await?;
    }
    Ok(())
}
