//! The actions that always exist, one registration each, so that a test can step in
//! before any of them.

#[cfg(feature = "confluence")]
use windlass_actions::CreatePage;
#[cfg(feature = "slack")]
use windlass_actions::PostMessage;
#[cfg(feature = "email")]
use windlass_actions::SendEmail;
#[cfg(feature = "monday")]
use windlass_actions::{CreateItem, GetItems};
use windlass_actions::{Echo, Exec, Fail, HttpRequest, Options, Script, Sleep};

use crate::work::Registration;

/// The actions that always exist, as far as the options allow.
pub(super) fn always(options: &Options) -> Vec<Registration> {
    let mut actions = vec![
        Registration::new(Echo),
        Registration::new(Fail),
        Registration::new(Sleep),
        Registration::new(Script),
        Registration::new(HttpRequest::new(options.http_allowed.clone())),
    ];
    #[cfg(feature = "slack")]
    actions.push(Registration::new(PostMessage::new(options)));
    #[cfg(feature = "monday")]
    actions.extend([
        Registration::new(GetItems::new(options)),
        Registration::new(CreateItem::new(options)),
    ]);
    #[cfg(feature = "confluence")]
    actions.push(Registration::new(CreatePage::new(options)));
    #[cfg(feature = "email")]
    actions.push(Registration::new(SendEmail::new(options)));
    if options.exec {
        actions.push(Registration::new(Exec));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_forgotten() {
        let registry = windlass_actions::registry();
        let known: Vec<&str> = registry.names().collect();
        let mut ours: Vec<Box<str>> = always(&Options::default())
            .into_iter()
            .map(|action| action.name)
            .collect();
        ours.sort();
        assert_eq!(ours.iter().map(|name| &**name).collect::<Vec<_>>(), known);
    }
}
