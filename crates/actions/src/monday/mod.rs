//! `monday.get-items` and `monday.create-item`, by Monday's GraphQL API.

mod api;
mod board;
mod create_item;
mod filter;
mod get_items;
mod values;

pub use create_item::CreateItem;
pub use get_items::GetItems;
