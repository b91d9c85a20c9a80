//! The actions that always exist
