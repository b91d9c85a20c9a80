//! What a request needs to reach a handler: a scope, room in a rate, a body within bounds.

use std::fmt;

use serde::Serialize;

/// What a token must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum TokenScope {
    /// Nothing: every client may ask, without a token.
    Public,
    /// To see workflows and runs.
    Read,
    /// To start runs and act on them.
    Execute,
    /// To change workflows, and to run graphs that are no workflow's.
    Manage,
    /// To take work, and to report how it ended.
    Work,
    /// All of it, and the server's own affairs.
    Admin,
}

impl TokenScope {
    /// The scopes that a token can carry.
    pub const CARRIED: [Self; 5] = [
        Self::Read,
        Self::Execute,
        Self::Manage,
        Self::Work,
        Self::Admin,
    ];

    /// The name in tokens.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Read => "workflows:read",
            Self::Execute => "workflows:execute",
            Self::Manage => "workflows:manage",
            Self::Work => "workflows:work",
            Self::Admin => "admin",
        }
    }

    /// The scope of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::CARRIED.into_iter().find(|scope| scope.name() == name)
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which budgets a request draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Rate {
    /// None: probes and documents.
    Free,
    /// The token's.
    Token,
    /// That of the hook which the path names by `{token}`.
    Hook,
    /// The token's, and that of the workflow which the path names by `{id}`.
    Workflow,
}

/// What a route needs. Every one has a scope, a rate and a limit of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    scope: TokenScope,
    rate: Rate,
    body: u64,
    beginning: bool,
}

impl Access {
    /// Access with this scope, counted against the token, without a body.
    #[must_use]
    pub const fn new(scope: TokenScope) -> Self {
        Self {
            scope,
            rate: Rate::Token,
            body: 0,
            beginning: false,
        }
    }

    /// For every client, not counted against a limit.
    #[must_use]
    pub const fn public() -> Self {
        Self::new(TokenScope::Public).rate(Rate::Free)
    }

    /// With `workflows:read`.
    #[must_use]
    pub const fn read() -> Self {
        Self::new(TokenScope::Read)
    }

    /// With `workflows:execute`.
    #[must_use]
    pub const fn execute() -> Self {
        Self::new(TokenScope::Execute)
    }

    /// With `workflows:manage`.
    #[must_use]
    pub const fn manage() -> Self {
        Self::new(TokenScope::Manage)
    }

    /// With `workflows:work`.
    #[must_use]
    pub const fn work() -> Self {
        Self::new(TokenScope::Work)
    }

    /// With `admin`.
    #[must_use]
    pub const fn admin() -> Self {
        Self::new(TokenScope::Admin)
    }

    /// Counted against these budgets.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }

    /// With a body of at most so many bytes.
    #[must_use]
    pub const fn body(mut self, bytes: u64) -> Self {
        self.body = bytes;
        self
    }

    /// The handler gets the first part of a body that is too large.
    #[must_use]
    pub const fn beginning(mut self) -> Self {
        self.beginning = true;
        self
    }

    /// Whether the handler gets the first part of a body that is too large.
    #[must_use]
    pub const fn reads_beginning(&self) -> bool {
        self.beginning
    }

    /// The scope.
    #[must_use]
    pub const fn scope(&self) -> TokenScope {
        self.scope
    }

    /// The budgets.
    #[must_use]
    pub const fn rate_class(&self) -> Rate {
        self.rate
    }

    /// The largest body, in bytes; 0 where there is none.
    #[must_use]
    pub const fn body_limit(&self) -> u64 {
        self.body
    }
}
