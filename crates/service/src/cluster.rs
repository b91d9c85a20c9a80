//! The processes of a cluster, for programs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_engine::{ClusterSession, ClusterView};
use windlass_store::{Role, TenantFilter};

/// What the cluster is, as programs read it: the queue of the tenants that the caller may see.
pub fn cluster(view: &ClusterView, tenants: &TenantFilter) -> Value {
    let mut owners = BTreeMap::new();
    for session in &view.sessions {
        let held = session.partitions.iter();
        owners.extend(held.map(|partition| (partition.0, id(session))));
    }
    let partition = |number| json!({ "partition": number, "owner": owners.get(&number) });
    let partitions: Vec<Value> = (0..view.partitions).map(partition).collect();
    let mut queue: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let mine = view
        .queue
        .iter()
        .filter(|it| tenants.matches(it.tenant.as_deref()));
    for kind in mine {
        let (waiting, leased) = queue.entry((&kind.action, &kind.requires)).or_default();
        *waiting += kind.waiting;
        *leased += kind.leased;
    }
    let kind = |((action, requires), (waiting, leased)): ((_, _), _)| {
        json!({
            "actionType": action, "requires": requires, "waiting": waiting, "leased": leased,
        })
    };
    json!({
        "sessions": view.sessions.iter().map(session).collect::<Vec<_>>(),
        "partitions": partitions,
        "queue": queue.into_iter().map(kind).collect::<Vec<Value>>(),
        "projectorLagMs": view.projector_lag_ms,
    })
}

/// How a session is named; a process that needs none is `local`.
fn id(session: &ClusterSession) -> String {
    session
        .session
        .map_or_else(|| "local".to_owned(), |id| id.to_string())
}

fn session(session: &ClusterSession) -> Value {
    let process = &session.process;
    // The writer behind the name is the program's own affair.
    let name = process.name.split(' ').next().unwrap_or_default();
    let roles: Vec<&str> = process.roles.iter().map(Role::as_str).collect();
    json!({
        "id": id(session),
        "name": name,
        "host": process.host,
        "roles": roles,
        "labels": process.labels,
        "slots": process.slots,
        "version": process.version,
        "since": session.since.to_string(),
        "expires": session.expires.map(|at| at.to_string()),
        "partitions": session.partitions.len(),
        "self": session.is_self,
    })
}
