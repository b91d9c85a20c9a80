//! A journey that is booked as a whole or not at all: each booking says how it is undone,
//! and when one fails, those that succeeded are undone in reverse order.
//!
//! ```console
//! cargo run -p windlass --example saga
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::schemars::JsonSchema;
use windlass::{ActionError, BuildError, CompensationPolicy, Context, Engine, RunHandle, Workflow};

/// What happened in the world, in its order.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Booking {
    what: String,
}

/// The journey. The car is never available.
pub(crate) fn workflow(diary: &Diary) -> Result<Workflow, BuildError> {
    let book = |what: &'static str| {
        let diary = diary.clone();
        move |_: Context| {
            diary.note(format!("book {what}"));
            async move {
                let what = what.to_owned();
                Ok(Booking { what })
            }
        }
    };
    let undo = || {
        let diary = diary.clone();
        move |_: Context, booking: Booking| {
            diary.note(format!("cancel {}", booking.what));
            async move { Ok(()) }
        }
    };
    Workflow::builder("journey")
        .compensation(CompensationPolicy::OnFailure)
        .step("flight", book("flight"))
        .compensate(undo(), "{{ output }}")
        .step("hotel", book("hotel"))
        .compensate(undo(), "{{ output }}")
        .step("car", |_: Context| async move {
            Err::<(), _>(ActionError::failed("NO_CARS", "all cars are taken"))
        })
        .step("confirm", "core.echo")
        .parameters(json!({ "confirmed": true }))
        .build()
}

/// Tries to book a journey.
pub(crate) async fn book(diary: &Diary) -> Result<RunHandle, Box<dyn std::error::Error>> {
    let workflow = workflow(diary)?;
    let engine = Engine::in_memory().workflow(&workflow).open().await?;
    let run = engine.start(&workflow, json!({})).await?;
    run.wait().await?;
    Ok(run)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let diary = Diary::default();
    let run = book(&diary).await?;
    for line in diary.lines() {
        println!("{line}");
    }
    let execution = run.execution()?;
    println!(
        "{}, compensation {:?}",
        execution.status, execution.compensation
    );
    Ok(())
}
