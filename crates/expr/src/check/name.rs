//! Names and what they stand for: parameters, values, entries of tables, functions.

use super::Checker;
use crate::ast::{
    Access, Arguments, Call, Callback, CallbackKind, Kind, Link, LinkKind, Literal, Node,
};
use crate::functions::{self, Function};
use crate::problem::{KEY_NOT_CONSTANT, NOT_ALLOWED, Problem, UNKNOWN_METHOD, UNKNOWN_NAME};
use crate::scope::Reference;

impl Checker<'_> {
    /// A name that stands alone.
    pub(super) fn name(&mut self, node: &mut Node) {
        let Kind::Name(name) = &node.kind else { return };
        if let Some(kind) = self.data(name, node.start, node.end) {
            node.kind = kind;
            return;
        }
        let problem = if self.is_table_root(name) {
            let message = format!(
                "`{name}` cannot be used as a whole; name an entry, as in `{}`",
                self.example(name)
            );
            Problem::new(KEY_NOT_CONSTANT, message, node.start, node.end)
        } else if functions::is_namespace(name) || Function::named(name).is_some() {
            let message =
                format!("the function `{name}` is no value; call it or give it to a method");
            Problem::new(NOT_ALLOWED, message, node.start, node.end)
        } else {
            self.unknown_name(name, node.start, node.end)
        };
        self.problems.push(problem);
        node.kind = Kind::Undefined;
    }

    /// A name that stands for data: an arrow parameter or a value of the scope.
    fn data(&mut self, name: &str, start: usize, end: usize) -> Option<Kind> {
        if let Some(local) = self.locals.iter().rev().find(|local| *local.name == *name) {
            let slot = local.slot;
            if !local.ready {
                let message = format!("`{name}` is used before it is bound");
                self.problems
                    .push(Problem::new(NOT_ALLOWED, message, start, end));
            }
            return Some(Kind::Local(slot));
        }
        let known = self.scope.has_value(name);
        let name = self.scope.first_name(name);
        known.then(|| Kind::Input(self.references.slot(Reference::Value(name.into()), start)))
    }

    fn is_data(&self, name: &str) -> bool {
        self.locals.iter().any(|local| *local.name == *name) || self.scope.has_value(name)
    }

    fn unknown_name(&self, name: &str, start: usize, end: usize) -> Problem {
        let mut candidates: Vec<&str> = self.locals.iter().map(|local| &*local.name).collect();
        candidates.extend(self.scope.roots());
        for name in functions::global_names() {
            candidates.push(name);
        }
        Problem::new(
            UNKNOWN_NAME,
            format!("there is no name `{name}` here"),
            start,
            end,
        )
        .suggest(name, candidates.into_iter())
    }

    fn is_table_root(&self, name: &str) -> bool {
        self.scope
            .tables()
            .iter()
            .any(|table| table.split('.').next() == Some(name))
    }

    fn example(&self, name: &str) -> String {
        let table = self
            .scope
            .tables()
            .iter()
            .find(|table| table.split('.').next() == Some(name));
        format!("{}['name']", table.map_or(name, |table| table))
    }

    /// A base with links: an entry of a table, a function of a namespace, or plain reading.
    pub(super) fn access(&mut self, node: &mut Node) {
        let Kind::Access(access) = &mut node.kind else {
            return;
        };
        if let Kind::Name(name) = &access.base.kind
            && !access.base.parenthesized
            && !self.is_data(name)
        {
            let name = name.clone();
            if self.is_table_root(&name) {
                self.entry(access);
            } else if functions::is_namespace(&name) {
                self.namespace(&name, access);
            }
        }
        match &access.base.kind {
            // The namespace's call has taken the place of the base and is checked already.
            Kind::Call(call) if call.function.is_some() => {}
            _ => self.node(&mut access.base),
        }
        if let (Kind::Input(slot), Some(link)) = (&access.base.kind, access.links.first())
            && let Some(key) = constant_key(link).or_else(|| constant_index(link))
        {
            self.references.note_field(*slot, key, link.start, link.end);
        }
        self.links(access);
        if access.links.is_empty() {
            let base = std::mem::replace(&mut access.base.kind, Kind::Undefined);
            node.kind = base;
        }
    }

    /// `context.data['a']`: the path and its key become one input.
    fn entry(&mut self, access: &mut Access) {
        let Kind::Name(root) = &access.base.kind else {
            return;
        };
        let mut path = root.to_string();
        let (start, mut end) = (access.base.start, access.base.end);
        let mut used = 0;
        let found = loop {
            let is_table = self.scope.tables().iter().any(|table| **table == *path);
            let Some(link) = access.links.get(used) else {
                break None;
            };
            let Some(name) = constant_key(link) else {
                break None;
            };
            used += 1;
            end = link.end;
            if is_table {
                break Some(name.to_owned());
            }
            path = format!("{path}.{name}");
            let prefix = format!("{path}.");
            let leads = self
                .scope
                .tables()
                .iter()
                .any(|table| **table == *path || table.starts_with(&prefix));
            if !leads {
                let known = self.scope.tables().iter().map(AsRef::as_ref);
                let message = format!("there is no name `{path}` here");
                self.problems
                    .push(Problem::new(UNKNOWN_NAME, message, start, end).suggest(&path, known));
                access.base.kind = Kind::Undefined;
                return;
            }
        };
        let Some(key) = found else {
            let end = access.links.get(used).map_or(end, |link| link.end);
            let message = format!(
                "the key after `{path}` must be a constant, as in `{}`",
                self.example(&path_root(&path))
            );
            self.problems
                .push(Problem::new(KEY_NOT_CONSTANT, message, start, end));
            access.base.kind = Kind::Undefined;
            return;
        };
        let reference = Reference::Entry {
            table: path.into(),
            key: key.into(),
        };
        access.base.kind = Kind::Input(self.references.slot(reference, start));
        access.base.end = end;
        access.links.drain(..used);
    }

    /// `Math.max(…)` and `Math.PI`.
    fn namespace(&mut self, namespace: &str, access: &mut Access) {
        let first = access.links.remove(0);
        let (start, end) = (access.base.start, first.end);
        access.base.end = end;
        access.base.kind = match first.kind {
            LinkKind::Method(call) => {
                let mut call = *call;
                let name = format!("{namespace}.{}", call.name);
                let function = self.function(&name, start, end);
                let position = function.and_then(|function| function.callback);
                self.arguments(&name, &mut call.arguments, position);
                Kind::Call(Box::new(Call {
                    name: name.into(),
                    function,
                    arguments: call.arguments,
                }))
            }
            LinkKind::Field(Literal::Plain(field)) => {
                let name = format!("{namespace}.{field}");
                match functions::constant(&name) {
                    Some(number) => Kind::Number(number),
                    None => {
                        if self.function(&name, start, end).is_some() {
                            let message = format!(
                                "the function `{name}` is no value; call it or give it to a method"
                            );
                            self.problems
                                .push(Problem::new(NOT_ALLOWED, message, start, end));
                        }
                        Kind::Undefined
                    }
                }
            }
            _ => {
                let message = format!("a function of `{namespace}` must be named");
                self.problems
                    .push(Problem::new(NOT_ALLOWED, message, start, end));
                Kind::Undefined
            }
        };
        if let Kind::Call(call) = &access.base.kind
            && call.function.is_none()
        {
            access.base.kind = Kind::Undefined;
        }
    }

    fn function(&mut self, name: &str, start: usize, end: usize) -> Option<&'static Function> {
        let found = Function::named(name);
        if found.is_none() {
            let problem = match functions::left_out(name) {
                Some(hint) => Problem::new(
                    UNKNOWN_METHOD,
                    format!("there is no `{name}`: {hint}"),
                    start,
                    end,
                ),
                None => Problem::new(
                    UNKNOWN_METHOD,
                    format!("there is no function `{name}`"),
                    start,
                    end,
                )
                .suggest(name, functions::function_names()),
            };
            self.problems.push(problem);
        }
        found
    }

    /// `name(arguments)`.
    pub(super) fn call(&mut self, node: &mut Node) {
        let Kind::Call(call) = &mut node.kind else {
            return;
        };
        let name = call.name.clone();
        let end = node.start + name.len();
        let mut position = None;
        if self.is_data(&name) {
            let message = format!("`{name}` is data and cannot be called");
            self.problems
                .push(Problem::new(NOT_ALLOWED, message, node.start, end));
        } else if let Some(function) = Function::named(&name) {
            call.function = Some(function);
            position = function.callback;
        } else if let Some(hint) = functions::left_out(&name) {
            self.problems.push(Problem::new(
                NOT_ALLOWED,
                format!("there is no `{name}` here: {hint}"),
                node.start,
                end,
            ));
        } else {
            let problem = self.unknown_name(&name, node.start, end);
            self.problems.push(problem);
        }
        self.arguments(&name, &mut call.arguments, position);
    }

    /// `.map(Number)`: a function of the language in the place of an arrow.
    pub(super) fn named_callback(&mut self, arguments: &mut Arguments, position: Option<usize>) {
        let Some(position) = position.filter(|_| arguments.callback.is_none()) else {
            return;
        };
        let Some(argument) = arguments
            .values
            .get_mut(position)
            .filter(|argument| !argument.spread)
        else {
            return;
        };
        let (root, name) = match &argument.node.kind {
            Kind::Name(name) => (name.clone(), name.to_string()),
            Kind::Access(access) => match (&access.base.kind, &access.links[..]) {
                (
                    Kind::Name(root),
                    [
                        Link {
                            kind: LinkKind::Field(Literal::Plain(field)),
                            ..
                        },
                    ],
                ) => (root.clone(), format!("{root}.{field}")),
                _ => return,
            },
            _ => return,
        };
        if self.is_data(&root) || self.is_table_root(&root) {
            return;
        }
        // As a callback it gets an index where its own function would stand, so it must take
        // no function, or handle an index.
        let fits = |function: &&Function| {
            function.callback.is_none() || function.name.starts_with("JSON.")
        };
        let Some(function) = Function::named(&name).filter(fits) else {
            return;
        };
        let kind = CallbackKind::Function(function);
        arguments.callback = Some(Callback {
            position,
            start: argument.node.start,
            kind,
        });
        argument.node.kind = Kind::Undefined;
    }
}

fn constant_key(link: &Link) -> Option<&str> {
    match &link.kind {
        LinkKind::Field(Literal::Plain(name)) => Some(name),
        _ => None,
    }
}

/// The key of `['key']`.
fn constant_index(link: &Link) -> Option<&str> {
    match &link.kind {
        LinkKind::Index(Node {
            kind: Kind::String(Literal::Plain(name)),
            ..
        }) => Some(name),
        _ => None,
    }
}

fn path_root(path: &str) -> String {
    path.split('.').next().unwrap_or(path).to_owned()
}
