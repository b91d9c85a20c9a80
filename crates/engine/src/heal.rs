//! Runs that follow the newest version of their workflow (semantics §9). It is looked at
//! when one is published, and when a run is acquired: by recovery, by a command that continues it,
//! or when it wakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::definition::InFlight;
use windlass_core::event::Event;
use windlass_core::plan::Plan;
use windlass_core::run::{Evaluations, Facts, Input, Refusal, Run, Values, decide};
use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
use windlass_store::{Error, RunFilter, RunRow, TenantFilter};

use crate::Backend;
use crate::driver::{CommandReply, Message};
use crate::engine::Engine;
use crate::limits::limits;
use crate::load::LoadError;
use crate::plans::Plans;

/// How many runs are read from the list together.
const PAGE: usize = 256;

/// What a new graph would do to a run that follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healing {
    /// Nodes of the top level that the run did not have.
    pub added: Vec<Box<str>>,
    /// Nodes of the top level that it has no more.
    pub removed: Vec<Box<str>>,
    /// Nodes that would be ready at once, and are not now.
    pub ready: Vec<Box<str>>,
    /// What people should decide on.
    pub warnings: Vec<HealingWarning>,
    /// Whether the run could make no progress with it, and would pause.
    pub is_stuck: bool,
}

/// Something that people should know before a run follows a new graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealingWarning {
    /// The node it is about, if any.
    pub node: Option<Box<str>>,
    /// Its code.
    pub code: Box<str>,
    /// A sentence.
    pub message: Box<str>,
}

/// Asks the run's own rules what a new graph would do to it; nothing changes.
///
/// # Errors
/// The run does not follow newer versions, or has this graph already.
pub fn would_heal(
    run: &Run,
    version: u32,
    definition: Digest,
    plan: &Arc<Plan>,
    now: Millis,
) -> Result<Healing, Refusal> {
    let input = Input::Heal {
        version,
        definition,
        plan: Arc::clone(plan),
    };
    let (values, running) = (Values::default(), BTreeSet::new());
    let facts = Facts {
        now,
        seed: 0,
        values: &values,
        running: &running,
        limits: &limits().values,
        evaluations: &Evaluations::default(),
    };
    let decision = decide(run, &input, &facts)?;
    let mut healing = Healing::default();
    let mut after = run.clone();
    for event in &decision.events {
        if let Event::Warning {
            node,
            code,
            message,
        } = event
        {
            let is_stuck = &**code == "DAG_INCOMPATIBLE";
            healing.is_stuck |= is_stuck;
            if !is_stuck {
                healing.warnings.push(HealingWarning {
                    node: node.clone(),
                    code: code.clone(),
                    message: message.clone(),
                });
            }
        }
        after.stage(definition, Arc::clone(plan));
        healing.is_stuck |= after.apply(event, now, &mut Vec::new()).is_err();
    }
    let ids = |plan: &Plan| -> BTreeSet<Box<str>> {
        let nodes = 0..plan.len() as u32;
        nodes.map(|node| plan.id(node).into()).collect()
    };
    let (old, new) = (ids(run.plan()), ids(plan));
    healing.added = new.difference(&old).cloned().collect();
    healing.removed = old.difference(&new).cloned().collect();
    let is_ready = |run: &Run, id: &str| {
        let node = run.resolve(id).and_then(|node| run.find_status(node));
        node == Some(NodeStatus::Queued)
    };
    let became_ready = |id: &str| is_ready(&after, id) && !is_ready(run, id);
    healing.ready = new.into_iter().filter(|id| became_ready(id)).collect();
    Ok(healing)
}

impl Engine {
    /// Lets every live run of a tenant's workflow that this engine has, or that sleeps, follow
    /// the newest version; the others follow it when they are acquired. To be called after a
    /// definition was published.
    ///
    /// # Errors
    /// The catalogue or the list of runs cannot be read.
    pub async fn heal_all(&self, tenant: Option<&str>, workflow: &str) -> Result<usize, LoadError> {
        let mut filter = RunFilter {
            tenant: TenantFilter::Only(tenant.map(Into::into)),
            workflow: Some(workflow.into()),
            statuses: vec![RunStatus::Running, RunStatus::Paused],
            limit: PAGE,
            ..RunFilter::default()
        };
        let Some(first) = first_healing(&**self.store(), tenant, workflow).await? else {
            return Ok(0);
        };
        // Only now: the plan of a large definition is large.
        let Some((version, command)) = self.newest(tenant, workflow).await? else {
            return Ok(0);
        };
        let mut healed = 0;
        loop {
            let page = self.store().runs(&filter).await?;
            let may_follow = |row: &&RunRow| row.version != version && row.version >= first;
            for row in page.rows.iter().filter(may_follow) {
                let run = row.run;
                if self.is_acquired(run).await {
                    let command = command.clone();
                    let answer = self.ask(|reply| Message::command(run, command, reply));
                    healed +=
                        usize::from(matches!(answer.await, Some(CommandReply::Decided(Ok(())))));
                } else if row.asleep && self.wake(run).await.is_ok() {
                    let now = self.store().run(run).await?;
                    healed += usize::from(now.is_some_and(|now| now.version == version));
                }
            }
            match page.next {
                Some(next) => filter.before = Some(next),
                None => return Ok(healed),
            }
        }
    }

    /// The command that lets a run that has ended follow the newest version once it is opened
    /// again, if it must.
    pub(crate) async fn newest_once_open(&self, run: RunId) -> Option<Input> {
        let loaded = self.load_beside(run).await.ok()?.run;
        if !loaded.would_heal_if_open() {
            return None;
        }
        self.other_newest(&loaded).await.ok()?
    }

    /// The command that lets a run follow the newest version, if it must.
    pub(crate) async fn newest_for(&self, run: &Run) -> Result<Option<Input>, LoadError> {
        if !run.can_heal() {
            return Ok(None);
        }
        self.other_newest(run).await
    }

    /// The command that lets a run follow the newest version, if it has another.
    async fn other_newest(&self, run: &Run) -> Result<Option<Input>, LoadError> {
        let queued = run.queued();
        let newest = self
            .newest(queued.tenant.as_deref(), &queued.workflow)
            .await?;
        Ok(newest.map(|(_, command)| command).filter(
            |command| matches!(command, Input::Heal { definition, .. } if *definition != run.definition()),
        ))
    }

    /// The newest version of a workflow, and the command that lets a run follow it.
    async fn newest(
        &self,
        tenant: Option<&str>,
        workflow: &str,
    ) -> Result<Option<(u32, Input)>, LoadError> {
        let newest = newest(&**self.store(), self.plans(), tenant, workflow).await?;
        Ok(newest.map(|(version, definition, plan)| {
            let command = Input::Heal {
                version,
                definition,
                plan,
            };
            (version, command)
        }))
    }
}

/// The first version of a workflow whose runs follow newer ones. Most workflows have none,
/// and their sleeping runs need not be looked at.
async fn first_healing(
    store: &dyn Backend,
    tenant: Option<&str>,
    workflow: &str,
) -> Result<Option<u32>, Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct HealingHeader {
        #[serde(default)]
        in_flight: InFlight,
    }
    for listed in store.versions(tenant, workflow).await?.iter().rev() {
        let row = store
            .definition(tenant, workflow, Some(listed.version))
            .await?;
        let header = row.map(|row| serde_json::from_slice::<HealingHeader>(&row.text));
        if let Some(Ok(header)) = header
            && header.in_flight == InFlight::Healing
        {
            return Ok(Some(listed.version));
        }
    }
    Ok(None)
}

async fn newest(
    store: &dyn Backend,
    plans: &Plans,
    tenant: Option<&str>,
    workflow: &str,
) -> Result<Option<(u32, Digest, Arc<Plan>)>, LoadError> {
    let found: Result<_, Error> = store.definition(tenant, workflow, None).await;
    let Some(row) = found? else {
        return Ok(None);
    };
    let plan = plans
        .plan(row.digest, &row.text)
        .map_err(|error| LoadError::Definition(error.to_string()))?;
    Ok(Some((row.version, row.digest, plan)))
}
