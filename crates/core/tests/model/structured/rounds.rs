//! How a scope settles, and how loops go on (semantics §7).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::error;
use super::expression::{Sight, holds, render};
use super::read::{Each, Flow, Kind, Until, While};
use super::scope::{Instance, Outcome, Round, Scope, Status};
use crate::model::Names;

/// What is common to all scopes of a run.
pub(crate) struct Common<'a> {
    pub(crate) flow: &'a Flow,
    /// How many scopes have been opened.
    pub(crate) opened: &'a mut usize,
    /// The instances that are with a worker.
    pub(crate) running: &'a Names,
    /// Instances in the order in which they succeeded.
    pub(crate) completed: &'a mut Vec<String>,
    /// Waits for signals in the order in which they began.
    pub(crate) waits: &'a mut Vec<String>,
    /// Signals that no node has taken, by name.
    pub(crate) mail: &'a mut BTreeMap<String, Vec<Value>>,
}

/// What a loop does when none of its iterations can go on by itself.
enum Next {
    Hold,
    /// Starts iterations that see these names.
    Start(Vec<BTreeMap<String, Value>>),
    Wait,
    Succeed(Value),
    Fail(Value),
}

/// Draws every consequence of what is known, in the order that the model promises.
pub(crate) fn settle(root: &mut Scope, common: &mut Common<'_>) {
    loop {
        settle_scope(root, &Sight::default(), common);
        if !begin(root, common) {
            return;
        }
    }
}

fn settle_scope(scope: &mut Scope, outside: &Sight, common: &mut Common<'_>) -> bool {
    let mut changed = false;
    loop {
        let sight = scope.sight(outside);
        let again = scope.route(&sight)
            || open(scope, common)
            || scope.join_early()
            || (common.flow.fail_fast && scope.fail_fast(common.running))
            || go_on(scope, &sight, common);
        if !again {
            return changed;
        }
        changed = true;
    }
}

fn open(scope: &mut Scope, common: &Common<'_>) -> bool {
    let ready = scope.ready(common.flow.by_level);
    for id in &ready {
        let node = scope.node(id);
        node.attempt = 1;
        node.status = Status::Open;
    }
    !ready.is_empty()
}

/// Begins one loop or wait that is open: in the scope that was opened first, the first
/// in definition order.
fn begin(root: &mut Scope, common: &mut Common<'_>) -> bool {
    let mut scopes = root.all();
    scopes.sort_by_key(|scope| scope.number);
    let next = scopes.into_iter().find_map(|scope| {
        let waits = |id: &&String| {
            let node = &scope.nodes[*id];
            let is_action = matches!(scope.definition(id).kind, Kind::Action);
            node.status == Status::Open && !node.begun && !is_action
        };
        let ids = scope.ids();
        ids.iter().find(waits).map(|id| scope.path(id))
    });
    let Some(path) = next else {
        return false;
    };
    let (scope, id) = root.find_mut(&path).expect("an open instance");
    scope.node(&id).begun = true;
    let kept = match &scope.definition(&id).kind {
        Kind::Signal { name, .. } => {
            let mail = common.mail.get_mut(name);
            let mail = mail.filter(|mail| !mail.is_empty());
            mail.map(|mail| mail.remove(0))
        }
        Kind::Delay => None,
        _ => return true,
    };
    match kept {
        Some(value) => succeed(scope, &id, value, common),
        None => {
            scope.node(&id).status = Status::Waiting;
            common.waits.push(path);
        }
    }
    true
}

/// Lets the first loop that can go on without a word from outside do so.
fn go_on(scope: &mut Scope, sight: &Sight, common: &mut Common<'_>) -> bool {
    let body = scope.body.clone();
    body.nodes.iter().any(|node| {
        let is_loop = matches!(node.kind, Kind::Each(_) | Kind::While(_) | Kind::Until(_));
        let state = &scope.nodes[&node.id];
        let goes_on = is_loop && state.begun && state.status == Status::Open;
        goes_on && go_round(scope, &node.id, &node.kind, sight, common)
    })
}

/// Ends a node as succeeded.
pub(crate) fn succeed(scope: &mut Scope, id: &str, value: Value, common: &mut Common<'_>) {
    common.completed.push(scope.path(id));
    end(scope.node(id), Status::Succeeded, value);
}

pub(crate) fn end(node: &mut Instance, status: Status, value: Value) {
    node.status = status;
    node.value = Some(value);
    node.told_to_stop = false;
}

fn go_round(
    scope: &mut Scope,
    id: &str,
    kind: &Kind,
    sight: &Sight,
    common: &mut Common<'_>,
) -> bool {
    let dooms = scope.stops_fast && !scope.exempt.contains(id);
    let node = scope.node(id);
    for round in &mut node.rounds {
        if round.outcome.is_some() {
            continue;
        }
        if settle_scope(&mut round.scope, sight, common) {
            return true;
        }
        if round.scope.has_ended() {
            round.outcome = Some(round.scope.outcome(sight));
            return true;
        }
    }
    let next = match kind {
        Kind::Each(each) => next_item(each, node, sight),
        Kind::While(repeat) => next_while(repeat, node, sight),
        Kind::Until(repeat) => next_try(repeat, node, sight),
        _ => unreachable!("a loop"),
    };
    let is_cut = node
        .rounds
        .iter()
        .any(|round| round.outcome == Some(Outcome::Cut));
    let wants_more = matches!(next, Next::Start(_) | Next::Wait);
    let told = node.told_to_stop;
    match next {
        Next::Hold => return false,
        _ if told && (is_cut || wants_more) => {
            node.status = Status::Cancelled;
            node.told_to_stop = false;
        }
        Next::Start(iterations) => start(scope, id, kind, iterations, common),
        Next::Wait => node.status = Status::Waiting,
        Next::Succeed(value) => succeed(scope, id, value, common),
        Next::Fail(error) => {
            node.failed_in_grace = dooms;
            end(node, Status::Failed, error);
        }
    }
    true
}

fn start(
    scope: &mut Scope,
    id: &str,
    kind: &Kind,
    iterations: Vec<BTreeMap<String, Value>>,
    common: &mut Common<'_>,
) {
    let body = match kind {
        Kind::Each(each) => &each.body,
        Kind::While(repeat) => &repeat.body,
        Kind::Until(repeat) => &repeat.body,
        _ => unreachable!("a loop"),
    };
    let path = scope.path(id);
    let node = scope.node(id);
    node.waited = false;
    for names in iterations {
        let at = format!("{path}[{}]/", node.rounds.len());
        *common.opened += 1;
        let mut scope = Scope::new(body, at, names);
        scope.number = *common.opened;
        let outcome = None;
        node.rounds.push(Round { scope, outcome });
    }
}

fn next_item(each: &Each, node: &mut Instance, sight: &Sight) -> Next {
    if node.items.is_none() {
        match render(&each.items, sight) {
            Ok(Value::Array(items)) => node.items = Some(items),
            _ => return Next::Fail(error("ITEMS_INVALID", false, Value::Null)),
        }
    }
    let items = node.items.clone().expect("evaluated above");
    let outcomes: Vec<_> = node.rounds.iter().map(|round| &round.outcome).collect();
    let open = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    let failure = outcomes.iter().position(is_bad).filter(|_| !each.collects);
    let free = each.at_once.saturating_sub(open);
    if failure.is_none() && node.rounds.len() < items.len() && free > 0 && !node.told_to_stop {
        let numbered = items.into_iter().enumerate().skip(node.rounds.len());
        let iterations = numbered.take(free).map(|(index, item)| {
            let own_name = each.item_name.clone().unwrap_or_else(|| "item".to_owned());
            BTreeMap::from([
                ("index".to_owned(), json!(index)),
                ("item".to_owned(), item.clone()),
                (own_name, item),
            ])
        });
        return Next::Start(iterations.collect());
    }
    if open > 0 {
        return Next::Hold;
    }
    if let Some(index) = failure {
        let details = json!({ "index": index, "error": error_in(outcomes[index]) });
        return Next::Fail(error("ITEM_FAILED", false, details));
    }
    if node.rounds.len() < items.len() {
        // It was asked to stop; that it has more to do is all that matters.
        return Next::Start(Vec::new());
    }
    let outputs = outcomes.iter().map(|outcome| match outcome {
        Some(Outcome::Good(output)) => output.clone(),
        outcome => json!({ "error": error_in(outcome) }),
    });
    Next::Succeed(outputs.collect())
}

fn next_while(repeat: &While, node: &Instance, sight: &Sight) -> Next {
    let count = node.rounds.len();
    let last = match node.rounds.last().map(|round| &round.outcome) {
        None => Value::Null,
        Some(None) => return Next::Hold,
        Some(Some(Outcome::Good(output))) => output.clone(),
        Some(outcome) => {
            let details = json!({ "iteration": count - 1, "error": error_in(outcome) });
            return Next::Fail(error("ITERATION_FAILED", false, details));
        }
    };
    let names = iteration(count, &last);
    let mut sight = sight.clone();
    sight.names.extend(names.clone());
    if !holds(&repeat.condition, &sight) {
        Next::Succeed(json!({ "iterations": count, "last": last }))
    } else if count >= repeat.at_most {
        Next::Fail(error("LOOP_LIMIT", false, Value::Null))
    } else {
        Next::Start(vec![names])
    }
}

fn next_try(repeat: &Until, node: &Instance, sight: &Sight) -> Next {
    let count = node.rounds.len();
    let Some(round) = node.rounds.last() else {
        return Next::Start(vec![iteration(0, &Value::Null)]);
    };
    let last = match &round.outcome {
        None => return Next::Hold,
        Some(Outcome::Good(output)) => {
            let mut sight = sight.clone();
            sight.names.extend(iteration(count - 1, output));
            let done = |until: &String| holds(until, &sight);
            if repeat.until.as_ref().is_none_or(done) {
                return Next::Succeed(output.clone());
            }
            output.clone()
        }
        Some(_) => Value::Null,
    };
    if count >= repeat.at_most {
        let details = json!({ "attempts": count, "error": error_in(&round.outcome) });
        Next::Fail(error("RETRY_EXHAUSTED", false, details))
    } else if repeat.backs_off && !node.waited {
        Next::Wait
    } else {
        Next::Start(vec![iteration(count, &last)])
    }
}

fn iteration(number: usize, last: &Value) -> BTreeMap<String, Value> {
    BTreeMap::from([
        ("iteration".to_owned(), json!(number)),
        ("last".to_owned(), last.clone()),
    ])
}

fn is_bad(outcome: &&Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Bad(_)))
}

fn error_in(outcome: &Option<Outcome>) -> Value {
    match outcome {
        Some(Outcome::Bad(error)) => error.clone(),
        _ => Value::Null,
    }
}
