//! `windlass publish --plan`: what a new version would do to each live run, before it is
//! published.

use windlass_service::publishing::would_publish;

use crate::commands::version_word;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};
use crate::source::PreparedDefinition;
use crate::table::Table;

/// Says what publishing would do.
pub(crate) fn run(settings: &Settings, definition: &PreparedDefinition) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let publishing = would_publish(&session, definition)?;
    let output = settings.output;
    if output.json {
        output.json(&publishing.json())?;
        return Ok(Exit::Done);
    }
    let (workflow, version) = (definition.plan.workflow(), publishing.version);
    output.say(&match publishing.created {
        true => format!("{workflow} would get version {version}; nothing is published"),
        false => format!("{workflow} version {version} is the same; nothing would change"),
    });
    if publishing.runs.is_empty() {
        output.say("no live run of it");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["RUN", "STATUS", "VERSION", "EFFECT", "DETAIL"]);
    for (row, effect) in &publishing.runs {
        table.row([
            session.short_id(row.run)?.into(),
            row.status.as_str().into(),
            version_word(row.version).into(),
            effect.name().into(),
            effect.detail().into(),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}
