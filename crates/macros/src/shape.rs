//! What an action's function must look like, and what to say when it does not.

use syn::spanned::Spanned as _;
use syn::{
    Error, FnArg, GenericArgument, ItemFn, LitStr, PathArguments, Result, ReturnType, Safety, Type,
};

/// The parts of an action's function that its implementation needs.
pub(crate) struct Shape {
    /// The parameters' type; none if the function takes only the context.
    pub(crate) parameters: Option<Type>,
    /// The output's type.
    pub(crate) output: Type,
    /// Whether the function returns a reply around its output.
    pub(crate) replies: bool,
}

/// The name in the attribute.
pub(crate) fn name(attribute: proc_macro2::TokenStream) -> Result<LitStr> {
    let example = "name the action: `#[action(\"orders.charge\")]`";
    let name: LitStr = syn::parse2(attribute.clone()).map_err(|_| {
        if attribute.is_empty() {
            Error::new(proc_macro2::Span::call_site(), example)
        } else {
            Error::new(attribute.span(), example)
        }
    })?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/:-".contains(c);
    let begins = name
        .value()
        .starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || name.value().len() > 128 || !name.value().chars().all(is_plain) {
        // The pattern that definitions require.
        let message = "an action's name matches ^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$";
        return Err(Error::new(name.span(), message));
    }
    Ok(name)
}

/// Checks the function's shape; every problem is reported at its own place.
pub(crate) fn shape(function: &ItemFn) -> Result<Shape> {
    let mut problems = Problems::default();
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        problems.add(&signature.fn_token, "an action is an `async fn`");
    }
    if !signature.generics.params.is_empty() {
        let message = "an action has one type of parameters and one of output: it is not generic";
        problems.add(&signature.generics, message);
    }
    if !matches!(signature.safety, Safety::Default) {
        problems.add(&signature.ident, "an action is not `unsafe`");
    }
    let parameters = arguments(function, &mut problems);
    let output = output(&signature.output, &mut problems);
    match (problems.0, parameters, output) {
        (None, Some(parameters), Some((output, replies))) => Ok(Shape {
            parameters,
            output,
            replies,
        }),
        (Some(error), ..) => Err(error),
        _ => Err(Error::new(signature.ident.span(), ARGUMENTS)),
    }
}

const ARGUMENTS: &str =
    "an action takes the context and its parameters: `(context: Context, parameters: Parameters)`";

const RETURNS: &str =
    "an action returns `Result<Output, ActionError>`, where the output can be serialised";

/// The type of the parameters, if the arguments are as they should be.
fn arguments(function: &ItemFn, problems: &mut Problems) -> Option<Option<Type>> {
    let arguments = &function.sig.inputs;
    let mut types = Vec::new();
    for argument in arguments {
        match argument {
            FnArg::Typed(typed) if matches!(*typed.ty, Type::Reference(_)) => {
                problems.add(
                    &typed.ty,
                    "an action owns its arguments: take this by value",
                );
                return None;
            }
            FnArg::Typed(typed) => types.push((*typed.ty).clone()),
            FnArg::Receiver(receiver) => {
                problems.add(receiver, "an action is a free function, without `self`");
                return None;
            }
        }
    }
    match types.len() {
        1 => Some(None),
        2 => Some(types.pop()),
        0 => {
            problems.add(&function.sig.ident, ARGUMENTS);
            None
        }
        _ => {
            problems.add(arguments, ARGUMENTS);
            None
        }
    }
}

/// The output's type, and whether a reply is around it.
fn output(returned: &ReturnType, problems: &mut Problems) -> Option<(Type, bool)> {
    let ReturnType::Type(_, returned) = returned else {
        problems.add(returned, RETURNS);
        return None;
    };
    let Some(ok) = argument_of(returned, "Result") else {
        problems.add(&**returned, RETURNS);
        return None;
    };
    match argument_of(&ok, "Reply") {
        Some(output) => Some((output, true)),
        None => Some((ok, false)),
    }
}

/// The first type argument of a type with this name.
fn argument_of(outer: &Type, name: &str) -> Option<Type> {
    let Type::Path(path) = outer else { return None };
    let last = path.path.segments.last()?;
    if last.ident != name {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner.clone()),
        _ => None,
    })
}

/// Errors so far, combined into one that the compiler takes apart again.
#[derive(Default)]
struct Problems(Option<Error>);

impl Problems {
    fn add(&mut self, place: &dyn quote::ToTokens, message: &str) {
        let error = Error::new_spanned(place.to_token_stream(), message);
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: &str) -> Vec<String> {
        let function: ItemFn = syn::parse_str(function).expect("a function");
        match shape(&function) {
            Ok(_) => Vec::new(),
            Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
        }
    }

    #[test]
    fn the_right_shapes_pass() {
        for function in [
            "async fn a(c: Context, p: P) -> Result<O, ActionError> { x }",
            "async fn a(c: Context) -> Result<(), ActionError> { x }",
            "pub async fn a(c: windlass::Context, P { id }: P) -> Result<Reply<O>, E> { x }",
        ] {
            assert_eq!(check(function), Vec::<String>::new(), "{function}");
        }
    }

    #[test]
    fn every_wrong_shape_is_explained() {
        for (function, message) in [
            ("fn a(c: C, p: P) -> Result<O, E> { x }", "`async fn`"),
            ("async fn a() -> Result<O, E> { x }", "takes the context"),
            (
                "async fn a(c: C, p: P, q: Q) -> Result<O, E> { x }",
                "takes the context",
            ),
            (
                "async fn a<T>(c: C, p: T) -> Result<O, E> { x }",
                "not generic",
            ),
            (
                "async fn a(c: &C, p: P) -> Result<O, E> { x }",
                "owns its arguments",
            ),
            ("async fn a(&self, p: P) -> Result<O, E> { x }", "`self`"),
            ("async fn a(c: C, p: P) -> O { x }", "returns `Result"),
            ("async fn a(c: C, p: P) { x }", "returns `Result"),
            (
                concat!("async un", "safe fn a(c: C, p: P) -> Result<O, E> { x }"),
                "`unsafe`",
            ),
        ] {
            let problems = check(function);
            assert!(
                problems.iter().any(|problem| problem.contains(message)),
                "{function}: {problems:?}"
            );
        }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        assert_eq!(check("fn a(c: &C, p: P) -> O { x }").len(), 3);
    }

    #[test]
    fn a_name_is_one_literal_without_spaces() {
        let name_of = |text: &str| name(text.parse().expect("tokens"));
        assert_eq!(
            name_of("\"orders.charge\"").expect("a name").value(),
            "orders.charge"
        );
        for wrong in ["", "charge", "\"\"", "\"a b\"", "\"a\", \"b\""] {
            assert!(name_of(wrong).is_err(), "{wrong}");
        }
    }
}
