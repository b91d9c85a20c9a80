//! `windlass reattempt`: failed or cancelled nodes are tried again, in the foreground.

use crate::access::{self, Access};
use crate::act;
use crate::args::{Act, Reattempt};
use crate::carry::carry;
use crate::commands::{dry_run, many};
use crate::control::{Heard, Request};
use crate::exit::{Exit, Failure};
use crate::foreground::{self, Manner};
use crate::session::Settings;

/// Tries nodes again.
pub(crate) fn run(settings: &Settings, arguments: &Reattempt) -> Result<Exit, Failure> {
    let manner = Manner::new(arguments.quiet, arguments.wait)?;
    let Some(reference) = &arguments.run else {
        let act = Act {
            run: None,
            filter: arguments.filter.clone(),
            dry_run: arguments.dry_run,
            reason: arguments.reason.clone(),
        };
        return many::run(settings, many::Kind::Reattempt, &act, manner.until);
    };
    loop {
        let (session, client) = match access::open(settings, false)? {
            Access::Held(session) => (session, None),
            Access::Through(session, client) => (session, Some(client)),
        };
        let run = session.find_run(reference)?;
        if arguments.dry_run {
            return dry_run::say_one(&session, many::Kind::Reattempt, run, &arguments.nodes);
        }
        let nodes = &arguments.nodes;
        let Some(client) = client else {
            let hand = act::hand(arguments.reason.as_deref());
            return carry(&session, None, async |carrier| {
                act::reattempt(carrier, run, nodes, hand).await?;
                let progress = foreground::show(carrier, &session, run, manner.quiet).await?;
                carrier.look_around(&session, Some(run));
                carrier.to_the_end(&session, run, &progress, manner).await
            });
        };
        let request = Request::Reattempt {
            run,
            nodes: nodes.clone(),
            reason: arguments.reason.clone(),
        };
        if let Heard::Answer(_) = access::runtime()?.block_on(client.ask(request, &[]))? {
            drop(session);
            return foreground::follow(settings, run, manner);
        }
    }
}
