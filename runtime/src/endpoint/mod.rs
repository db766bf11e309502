//! Protocol endpoints: wire messages in, tool call requests out. They hold no authority of their own.

pub mod mcp;
