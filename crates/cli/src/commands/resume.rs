//! `windlass resume`: an interrupted or paused run is carried on in the foreground.

use crate::access::{self, Access};
use crate::act;
use crate::args::Resume;
use crate::carry::carry;
use crate::commands::{dry_run, many};
use crate::control::{Heard, Request};
use crate::exit::{Exit, Failure};
use crate::foreground::{self, Manner};
use crate::session::Settings;

/// Carries a run on.
pub(crate) fn run(settings: &Settings, arguments: &Resume) -> Result<Exit, Failure> {
    let manner = Manner::new(arguments.quiet, arguments.wait)?;
    let act = &arguments.act;
    let Some(reference) = &act.run else {
        return many::run(settings, many::Kind::Resume, act, manner.until);
    };
    loop {
        let (session, client) = match access::open(settings, false)? {
            Access::Held(session) => (session, None),
            Access::Through(session, client) => (session, Some(client)),
        };
        let run = session.find_run(reference)?;
        let status = session.status(run)?;
        if act.dry_run {
            return dry_run::say_one(&session, many::Kind::Resume, run, &[]);
        }
        foreground::refuse_ended(run, status)?;
        let hand = act::hand(act.reason.as_deref());
        let Some(client) = client else {
            return carry(&session, None, async |carrier| {
                let progress = foreground::show(carrier, &session, run, manner.quiet).await?;
                act::carry_on(carrier, run, hand).await?;
                carrier.look_around(&session, Some(run));
                carrier.to_the_end(&session, run, &progress, manner).await
            });
        };
        let reason = act.reason.clone();
        let asking = client.ask(Request::Resume { run, reason }, &[]);
        if let Heard::Answer(_) = access::runtime()?.block_on(asking)? {
            drop(session);
            return foreground::follow(settings, run, manner);
        }
    }
}
