//! Inputs for runs that the shard does not have in memory, or not any more.

use windlass_core::RunId;
use windlass_core::run::{Instance, Refusal};
use windlass_store::WorkKey;

use super::{Context, Effect, ShardInput};

/// The run is not here: a command is refused, a parent that sleeps for a child is woken, and
/// any other input is late and dropped. `asked` is the fence of the question that it answers.
pub(super) fn refuse(input: ShardInput, was_dropped: bool, asked: u64, context: &mut Context<'_>) {
    match input {
        // It asked, and ended before the answer came.
        ShardInput::SlotsAnswered {
            run, node, attempt, ..
        } if !was_dropped => free_slots(run, (node, attempt), asked, context),
        // Its run was given up here while a worker of this process had the attempt.
        ShardInput::Ended {
            run, node, attempt, ..
        } if was_dropped && !context.options.shared_gates => {
            // No other process has the store.
            free_slots(run, (node, attempt), u64::MAX, context);
        }
        ShardInput::Command { run, id, .. } => context.effects.push_back(Effect::Answer {
            run,
            id,
            result: Err(Refusal::RunEnded),
        }),
        ShardInput::ChildEnded { run, .. } | ShardInput::ChildFailed { run, .. } => {
            context.effects.push_back(Effect::WakeParent { run });
        }
        _ => {}
    }
}

fn free_slots(
    run: RunId,
    (instance, attempt): (Instance, u32),
    fence: u64,
    context: &mut Context<'_>,
) {
    let key = WorkKey {
        run,
        instance,
        attempt,
    };
    context.give_slots(key, fence);
}
