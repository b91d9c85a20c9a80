//! The shapes of answers, for the OpenAPI document. Most answers are written by others, as
//! JSON; what these types say is checked against real answers by the tests.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_service::run_item::RunDetails;

macro_rules! shapes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Serialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub(super) struct $name {
                $($(#[$field_meta])* pub(super) $field: $type,)*
            }
        )*
    };
}

/// Any JSON value.
pub(super) type Any = Value;

/// An object whose keys depend on what it is about.
type Object = BTreeMap<String, Value>;

shapes! {
    /// A run that was asked for.
    StartedShape {
        /// The run's id.
        execution_id: String,
        /// How it stands.
        status: String,
        /// Where to look at it.
        status_url: String,
        /// Whether an earlier request with the same id had started it.
        existing: bool,
    }
    /// What a command did to a run, or would do.
    ActedShape {
        /// The run's id.
        execution_id: String,
        /// Its workflow.
        workflow_id: String,
        /// How it stands now.
        status: String,
        /// What the command would do; only for a dry run.
        #[serde(skip_serializing_if = "Option::is_none")]
        would: Option<String>,
        /// The nodes that would be open again.
        #[serde(skip_serializing_if = "Option::is_none")]
        again: Option<Vec<String>>,
        /// The nodes that would be undone, in this order.
        #[serde(skip_serializing_if = "Option::is_none")]
        undone: Option<Vec<String>>,
    }
    /// Work for a worker: nothing, if nothing came in time.
    TasksShape {
        /// The tasks.
        tasks: Vec<TaskShape>,
    }
    /// An attempt, for a worker.
    TaskShape {
        /// What the worker names it by.
        task_id: String,
        /// The token that the worker sends with every report about the task.
        lease: String,
        /// The run.
        execution_id: String,
        /// Its workflow.
        workflow_id: String,
        /// The version that the run is on.
        version: u32,
        /// The node instance, by its path.
        node: String,
        /// The attempt's number, from 1.
        attempt: u32,
        /// The action to call.
        action_type: String,
        /// The parameters, rendered.
        parameters: Any,
        /// The same for automatic retries and after crashes: hand it to the other system.
        idempotency_key: String,
        /// What remains of the attempt's time.
        timeout_ms: u64,
        /// When that is over, by the server's clock.
        deadline: String,
        /// How often the worker sends a heartbeat.
        heartbeat_ms: u64,
        /// The trace context to hand on.
        traceparent: Option<String>,
    }
    /// Whether a worker is asked to end an attempt.
    StopShape {
        /// True if the worker should stop the attempt.
        stop: bool,
    }
    /// The end of an attempt that was recorded.
    RecordedShape {
        /// The task.
        task_id: String,
        /// Always true.
        recorded: bool,
    }
    /// A worker that polls, or has tasks.
    WorkerShape {
        /// Its name.
        worker: String,
        /// Its tenant.
        tenant_id: Option<String>,
        /// The action types that it polls for, or those of its tasks.
        actions: Vec<String>,
        /// The labels that it has.
        labels: Vec<String>,
        /// When it polled first, or got its first task.
        since: String,
        /// When it polled last; null if it has not polled since the server started.
        last_poll_at: Option<String>,
        /// Whether it waits for work now.
        waiting: bool,
        /// How many tasks it has.
        tasks: u64,
    }
    /// A definition that was published.
    PublishedShape {
        /// The workflow.
        workflow_id: String,
        /// The version that holds the definition.
        version: u32,
        /// Whether it was made now.
        created: bool,
        /// What is allowed and probably not meant.
        warnings: Vec<DefinitionWarningShape>,
    }
    /// Something in a definition that is allowed and probably not meant.
    DefinitionWarningShape {
        code: String,
        message: String,
        /// Where it is in the definition, as a JSON pointer (RFC 6901).
        pointer: String,
        /// What to write instead, where that is known.
        suggestion: Option<String>,
    }
    /// Whether new runs of a workflow are allowed.
    EnabledShape {
        /// The workflow.
        workflow_id: String,
        /// True if new runs are allowed.
        enabled: bool,
    }
    /// A run that a hook started.
    HookStartedShape {
        /// The run's id.
        execution_id: String,
        /// Whether an earlier delivery had started it.
        existing: bool,
    }
    /// What was removed.
    RemovedShape {
        /// Its id.
        id: String,
    }
    /// The dead letters that the request changed.
    LettersShape {
        /// Their runs.
        execution_ids: Vec<String>,
    }
    /// A secret that was set.
    SetSecretShape {
        /// Its name.
        name: String,
        /// True if no secret had that name before.
        created: bool,
    }
    /// What was encrypted with a new key.
    RotatedShape {
        /// How many secrets.
        secrets: usize,
        /// How many secrets of hooks.
        hooks: usize,
    }
    /// A secret that was forgotten.
    RemovedSecretShape {
        /// Its name.
        name: String,
    }
    /// A pool that was made or changed.
    SetPoolShape {
        /// Its name.
        name: String,
        /// How many slots it has now.
        slots: u32,
        /// True if no pool had that name before.
        created: bool,
    }
    /// A pool that was removed.
    RemovedPoolShape {
        /// Its name.
        name: String,
    }
}

/// Shapes that are only described here: other code writes them.
macro_rules! described {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(JsonSchema)]
            #[serde(rename_all = "camelCase")]
            #[allow(dead_code, reason = "it is only described")]
            pub(super) struct $name {
                $($field: $type,)*
            }
        )*
    };
}

described! {
    /// A hook.
    HookShape {
        id: String,
        tenant_id: Option<String>,
        workflow_id: String,
        created_at: String,
        damage: Option<String>,
    }
    /// A hook that was made, with its signing secret, which is shown only now.
    HookMadeShape {
        id: String,
        tenant_id: Option<String>,
        workflow_id: String,
        created_at: String,
        path: String,
        token: String,
        secret: String,
    }
    /// A schedule.
    ScheduleShape {
        id: String,
        tenant_id: Option<String>,
        workflow_id: String,
        cron: Option<String>,
        every_ms: Option<u64>,
        timezone: String,
        trigger: Any,
        labels: Object,
        priority: u8,
        enabled: bool,
        catch_up: String,
        overlap: String,
        changed_at: String,
        next_at: Option<String>,
        last_at: Option<String>,
        last_execution_id: Option<String>,
        last_error: Option<String>,
        damage: Option<String>,
        times: Option<Vec<String>>,
    }
    /// A workflow in a list.
    WorkflowShape {
        workflow_id: String,
        display_name: Option<String>,
        version: u32,
        enabled: bool,
        description: Option<String>,
        created_at: Option<String>,
        updated_at: String,
        tenant_id: Option<String>,
        damage: Option<String>,
    }
    /// A version in a list.
    VersionShape {
        workflow_id: String,
        version: u32,
        digest: String,
        signature: String,
        published_at: String,
    }
    /// A definition, as it was published.
    DefinitionShape {
        id: String,
        nodes: Vec<Object>,
    }
    /// What changed between two versions.
    DiffShape {
        workflow_id: String,
        from: u32,
        to: u32,
        nodes: Object,
        edges: Object,
        keys: Vec<String>,
        values: Vec<Object>,
    }
    /// What publishing would do.
    PublishingShape {
        workflow_id: String,
        version: u32,
        created: bool,
        runs: Vec<Object>,
    }
    /// What is wrong with a definition.
    ValidatedShape {
        valid: bool,
        problems: Vec<Object>,
    }
    /// What simulated runs of a definition did: the endings (the most frequent first, with a
    /// seed of each), durations in virtual milliseconds (`min`, `median`, `p95`, `max`), how
    /// often each condition was asked and true, failed attempts by node and code, what is wrong
    /// in a sentence each; `events` if one seed was asked for. `runs` is smaller than what was
    /// asked for if the time was over before.
    SimulatedShape {
        workflow_id: String,
        runs: u64,
        crashes: u64,
        endings: Vec<Object>,
        duration_ms: Option<Object>,
        never_ran: Vec<String>,
        conditions: Vec<Object>,
        failures: Vec<Object>,
        problems: Vec<String>,
        events: Option<Vec<Object>>,
    }
    /// A root cause: a failed node with no failed node behind it.
    CauseShape {
        execution_id: String,
        node: String,
        path: Option<Vec<String>>,
        name: Option<String>,
        code: String,
        message: String,
    }
    /// Why a run failed.
    RunErrorShape {
        code: String,
        message: String,
        nodes: Vec<String>,
        causes: Vec<CauseShape>,
    }
    /// A run with its nodes.
    ExecutionShape {
        execution_id: String,
        workflow_id: String,
        version: u32,
        graph: String,
        request_id: String,
        tenant_id: Option<String>,
        correlation_id: String,
        priority: u8,
        labels: BTreeMap<String, String>,
        status: String,
        error: Option<RunErrorShape>,
        compensation: Option<String>,
        trigger: Any,
        vars: Object,
        output: Any,
        created_at: String,
        started_at: Option<String>,
        ended_at: Option<String>,
        updated_at: Option<String>,
        parent: Option<Object>,
        origin: Option<Object>,
        counts: BTreeMap<String, u64>,
        nodes: BTreeMap<String, Object>,
    }
    /// One node instance.
    NodeShape {
        execution_id: String,
        node: String,
        status: String,
        name: Option<String>,
        attempts: u32,
        input: Any,
        output: Any,
        duration_ms: Option<u64>,
        actions: Vec<Object>,
    }
    /// A graph.
    GraphShape {
        title: String,
        nodes: Vec<Object>,
        edges: Vec<Object>,
    }
    /// Why a run stands where it does.
    WhyShape {
        execution_id: String,
        status: String,
        reason: String,
        nodes: Vec<Object>,
    }
    /// A graph, as import takes it.
    ExportShape {
        version: u32,
        signature: String,
        frozen_at: String,
        nodes: Object,
    }
    /// What a check found.
    VerifiedShape {
        execution_id: String,
        valid: bool,
        records: Option<u64>,
        values: Option<u64>,
        hashes: Option<u64>,
        misfit: Option<Object>,
    }
    /// Something that happened.
    EventShape {
        v: u32,
        position: u64,
        at: String,
        level: String,
        category: String,
        kind: String,
        node: Option<String>,
        name: Option<String>,
        attempt: Option<u32>,
        data: Object,
    }
    /// Records as they are stored.
    LogShape {
        execution_id: String,
        head: Object,
        row: RunDetails,
        records: Vec<Object>,
        next: Option<u64>,
    }
    /// What a fork would do.
    ForkPlanShape {
        origin: String,
        workflow_id: String,
        version: u32,
        graph: String,
        again: Vec<String>,
        reused: Vec<String>,
        rest: Vec<Object>,
        compensated: Vec<Object>,
    }
    /// A run that the engine set aside as a dead letter.
    LetterShape {
        execution_id: String,
        workflow_id: String,
        tenant_id: Option<String>,
        reason: String,
        deliveries: u32,
        at: String,
        payload: Any,
        damage: Option<String>,
    }
    /// The name of a stored secret, without its value.
    SecretShape {
        name: String,
        tenant_id: Option<String>,
        updated_at: String,
        damage: Option<String>,
    }
    /// An attempt that holds slots of a pool, or waits for them.
    PoolAttemptShape {
        execution_id: String,
        node: String,
        attempt: u32,
        slots: u32,
        priority: u8,
        since: String,
    }
    /// A pool, with the first hundred attempts that hold its slots, and that wait in line.
    PoolShape {
        name: String,
        tenant_id: Option<String>,
        slots: u32,
        used: u64,
        waiting: u64,
        updated_at: String,
        holders: Vec<PoolAttemptShape>,
        waiters: Vec<PoolAttemptShape>,
    }
    /// Who changed what.
    AuditShape {
        number: u64,
        at: String,
        tenant_id: Option<String>,
        by: String,
        from: String,
        what: String,
        target: String,
        detail: Any,
        damage: Option<String>,
    }
    /// What a node can call.
    ActionShape {
        name: String,
        description: String,
        parameters: Any,
        output: Any,
        declared_by_workers: Option<bool>,
        last_seen_at: Option<String>,
    }
}
