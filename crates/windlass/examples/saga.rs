//! A journey that is booked as a whole or not at all: each booking says how it is undone,
//! and when one fails, those that succeeded are undone in reverse order.
//!
//! ```console
//! cargo run -p windlass --example saga
//! ```

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::schemars::JsonSchema;
use windlass::{
    ActionError, BuildError, CompensationPolicy, Context, Engine, RunHandle, State, Workflow,
};

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

/// What a run is about.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Trip {
    traveller: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Booking {
    what: String,
}

/// Books something. The diary is the application's: the engine shares it with every function.
fn book(
    what: &'static str,
) -> impl Fn(Context, State<Diary>, Trip) -> Ready<Result<Booking, ActionError>> {
    move |_, diary, trip| {
        diary.note(format!("book {what}"));
        let what = format!("{what} for {}", trip.traveller);
        ready(Ok(Booking { what }))
    }
}

async fn cancel(_: Context, diary: State<Diary>, booking: Booking) -> Result<(), ActionError> {
    let what = booking.what.split(' ').next().unwrap_or_default();
    diary.note(format!("cancel {what}"));
    Ok(())
}

/// The journey. The car is never available.
pub(crate) fn workflow() -> Result<Workflow, BuildError> {
    Workflow::builder("journey")
        .trigger::<Trip>()
        .compensation(CompensationPolicy::OnFailure)
        .step("flight", book("flight"))
        .compensate(cancel, "{{ output }}")
        .step("hotel", book("hotel"))
        .compensate(cancel, "{{ output }}")
        .step("car", |_: Context| async move {
            Err::<(), _>(ActionError::failed("NO_CARS", "all cars are taken"))
        })
        .step("confirm", "core.echo")
        .parameters(json!({ "confirmed": true }))
        .build()
}

/// Tries to book a journey.
pub(crate) async fn travel(diary: &Diary) -> Result<RunHandle, Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .state(diary.clone())
        .open()
        .await?;
    let trip = Trip {
        traveller: "ana".to_owned(),
    };
    let run = engine.start(&workflow, trip).await?;
    run.wait().await?;
    Ok(run)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let diary = Diary::default();
    let run = travel(&diary).await?;
    for line in diary.lines() {
        println!("{line}");
    }
    let execution = run.execution().await?;
    println!(
        "{}, compensation {:?}",
        execution.status, execution.compensation
    );
    Ok(())
}
