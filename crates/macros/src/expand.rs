//! Expands an action's function into a unit struct of its name, and its implementation.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, ItemFn, Lit, Meta, Result};

use crate::shape::{Shape, name, shape};

pub(crate) fn action(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let name = name(attribute)?;
    let function: ItemFn = syn::parse2(item)
        .map_err(|error| syn::Error::new(error.span(), "`#[action]` belongs on an `async fn`"))?;
    let Shape {
        parameters,
        output,
        replies,
    } = shape(&function)?;
    let (documentation, rest): (Vec<_>, Vec<_>) = function
        .attrs
        .iter()
        .partition(|attribute| attribute.path().is_ident("doc"));
    let description = describe(&documentation, &name.value());
    let documentation = if documentation.is_empty() {
        quote!(#[doc = #description])
    } else {
        quote!(#(#documentation)*)
    };
    let (visibility, signature, body) = (&function.vis, &function.sig, &function.block);
    let identifier = &signature.ident;
    let call = match &parameters {
        Some(_) => quote!(#identifier(context, parameters)),
        None => quote!({ let _ = parameters; #identifier(context) }),
    };
    let parameters = match parameters {
        Some(parameters) => quote!(#parameters),
        None => quote!(::windlass::work::Ignored),
    };
    let reply = match replies {
        true => quote!(#call.await),
        false => quote!(#call.await.map(::windlass::Reply::new)),
    };
    Ok(quote! {
        #documentation
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #identifier;

        impl ::windlass::Action for #identifier {
            type Parameters = #parameters;
            type Output = #output;

            fn name(&self) -> &str {
                #name
            }

            fn description(&self) -> &str {
                #description
            }

            async fn run(
                &self,
                context: ::windlass::Context,
                parameters: Self::Parameters,
            ) -> ::core::result::Result<::windlass::Reply<Self::Output>, ::windlass::ActionError> {
                #(#rest)*
                #signature #body
                #reply
            }
        }
    })
}

/// The first paragraph of the doc comment, or a sentence that stands for it.
fn describe(documentation: &[&Attribute], name: &str) -> String {
    let lines = documentation.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    let paragraph: Vec<String> = lines
        .skip_while(String::is_empty)
        .take_while(|line| !line.is_empty())
        .collect();
    if paragraph.is_empty() {
        return format!("The action `{name}`.");
    }
    paragraph.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(item: &str) -> String {
        let name = "\"orders.charge\"".parse().expect("tokens");
        action(name, item.parse().expect("tokens"))
            .expect("an action")
            .to_string()
    }

    #[test]
    fn the_first_paragraph_describes_the_action() {
        let text = expand(
            "/// Charges a card,\n/// once.\n///\n/// More.\n\
             async fn charge(c: Context, p: Charge) -> Result<Receipt, ActionError> { x }",
        );
        assert!(text.contains("\"Charges a card, once.\""), "{text}");
        assert!(text.contains("type Parameters = Charge"), "{text}");
        assert!(text.contains("type Output = Receipt"), "{text}");
        assert!(text.contains("map (:: windlass :: Reply :: new)"), "{text}");
    }

    #[test]
    fn without_a_comment_or_parameters_there_are_defaults() {
        let text = expand("async fn charge(c: Context) -> Result<Reply<u8>, ActionError> { x }");
        assert!(text.contains("\"The action `orders.charge`.\""), "{text}");
        assert!(text.contains(":: windlass :: work :: Ignored"), "{text}");
        assert!(text.contains("type Output = u8"), "{text}");
        assert!(!text.contains("map ("), "{text}");
    }

    #[test]
    fn only_functions_become_actions() {
        let name = || "\"a\"".parse().expect("tokens");
        let error = action(name(), "struct A;".parse().expect("tokens")).expect_err("refused");
        assert!(error.to_string().contains("belongs on an `async fn`"));
    }
}
