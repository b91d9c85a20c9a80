//! The `#[action]` attribute: an `async fn` becomes a typed action.
//!
//! It knows the shape of the function and the names that the `windlass` crate exports,
//! and nothing of engines. Use it through `windlass::action`.

mod expand;
mod shape;

use proc_macro::TokenStream;

/// Makes an action of an `async fn`.
///
/// ```text
/// /// Charges a card.
/// #[action("payments.charge")]
/// async fn charge(context: Context, parameters: Charge) -> Result<Receipt, ActionError> { … }
/// ```
///
/// The function's name becomes a unit struct that implements `windlass::Action`: register
/// it with `engine.action(charge)`, or hand it to a step. The parameters' and the output's
/// JSON Schema derive from their types, the description from the doc comment.
///
/// The function takes the context and, optionally, the parameters; it returns
/// `Result<Output, ActionError>`, or `Result<Reply<Output>, ActionError>` to say more than
/// an output.
#[proc_macro_attribute]
pub fn action(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::action(attribute.into(), item.into())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
