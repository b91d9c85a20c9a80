//! Credentials by their documented names. A node may name another secret for another
//! account; the values never leave the attempt.

use windlass_engine::{ActionError, Context};

/// The credentials of a request.
pub(crate) struct Account {
    /// The user, where the service asks for one.
    pub(crate) user: Option<String>,
    /// The token or password.
    pub(crate) token: String,
}

/// The account of a node: the secret that its `credentials` name, or the service's own
/// (`SLACK_TOKEN`). The user is the secret of the same name with `_USER`, or `user`.
pub(crate) async fn account(
    context: &Context,
    given: Option<&str>,
    token: &str,
    user: Option<&str>,
) -> Result<Account, ActionError> {
    let name = given.unwrap_or(token);
    let Some(token) = context.secret(name).await? else {
        let message = format!(
            "there is no secret '{name}'; set it with `windlass secrets set {name}` or in \
             WINDLASS_SECRET_{name}, or name another with `credentials`"
        );
        return Err(ActionError::failed("SECRET_NOT_FOUND", message));
    };
    let user = match (given, user) {
        (_, None) => None,
        (Some(name), Some(_)) => context.secret(&format!("{name}_USER")).await?,
        (None, Some(user)) => context.secret(user).await?,
    };
    // A line end at the end of a file that held the token is not part of it.
    let token = token.trim().to_owned();
    context.conceal(token.clone());
    Ok(Account { user, token })
}
