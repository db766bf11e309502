//! Every bound that callers or people can meet, named once, with its unit.

/// Longest command line typed into a session, bytes (source: seed on interactive terminals, one line of 64 KiB).
pub const COMMAND_BYTES: usize = 64 * 1024;
/// Longest value of one argument, bytes.
pub const ARGUMENT_BYTES: usize = 64 * 1024;
/// Most arguments in one request.
pub const ARGUMENTS: usize = 64;
/// Longest caller-given invocation id, bytes.
pub const INVOCATION_ID_BYTES: usize = 128;
/// Longest reason, caller's or approver's, bytes.
pub const REASON_BYTES: usize = 4 * 1024;
/// Most inputs in one file grant (seed: 32).
pub const GRANT_INPUTS: usize = 32;
/// Largest granted file unless the manifest says otherwise, bytes (seed: 8 MiB).
pub const GRANT_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Sum of a grant's inputs, bytes.
pub const GRANT_TOTAL_BYTES: u64 = 32 * 1024 * 1024;
/// Output kept of one interaction or one-shot stream, bytes (seed: 4 MiB).
pub const INTERACTION_BYTES: usize = 4 * 1024 * 1024;
/// Output kept of one session's transcript, bytes (seed: 4 MiB).
pub const TRANSCRIPT_BYTES: usize = 4 * 1024 * 1024;
/// Live sessions at once (seed: 16).
pub const LIVE_SESSIONS: usize = 16;
/// Closed runs remembered until their deadlines (seed: 1,024).
pub const REMEMBERED_RUNS: usize = 1024;
/// Calls of one run that may wait for a person at once.
pub const PENDING_APPROVALS_PER_RUN: usize = 5;
/// How long an approval waits for an answer unless configured, milliseconds.
pub const APPROVAL_WAIT_MS: u64 = 600_000;
/// How long a given approval may be used, milliseconds.
pub const RECEIPT_LIFE_MS: u64 = 120_000;
/// Largest journal record, bytes. A call's result may carry [`INTERACTION_BYTES`] of output, and what the caller gets is
/// what the journal holds, so a record must have room for it; terminal output is split by its writer.
pub const RECORD_BYTES: usize = 12 * 1024 * 1024;
/// Records that may wait for the journal's writer; more senders wait for room.
pub const JOURNAL_QUEUE: usize = 1024;
/// Bytes that may wait for the journal's writer; more senders wait for room.
pub const JOURNAL_QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// Largest group of records written at once, bytes.
pub const JOURNAL_GROUP_BYTES: usize = 1024 * 1024;
/// Longest time a record may be written but not yet durable, milliseconds.
pub const JOURNAL_DURABLE_MS: u64 = 20;
/// Most records between two checkpoints.
pub const CHECKPOINT_RECORDS: u64 = 1024;
/// Largest chunk of terminal output in one record, bytes before encoding.
pub const OUTPUT_CHUNK_BYTES: usize = 16 * 1024;
/// Largest frame a client may send on the control socket, bytes.
pub const FRAME_BYTES: usize = 8 * 1024 * 1024;
/// Largest frame a runtime sends on the control socket, bytes: a result with all its streams full of escapes fits.
pub const REPLY_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of events in one answer, when they are more than one: all of them can be sent.
pub const EVENTS_BYTES: usize = 16 * 1024 * 1024;
/// Connections to one runtime's control socket at once.
pub const CONNECTIONS: usize = 64;
/// Requests in progress on one control connection; further ones are not read until one is answered.
pub const REQUESTS_IN_PROGRESS: usize = 256;
/// Largest terminal a session can be given, columns by rows.
pub const TERMINAL_MAX: (u16, u16) = (1_000, 500);
/// Sum of one request's argument values, bytes: with everything made of them it fits into one record.
pub const ARGUMENTS_BYTES: usize = 1024 * 1024;
/// Longest nonce of a receipt, bytes.
pub const NONCE_BYTES: usize = 128;
/// Smallest size at which approve is offered, columns by rows.
pub const APPROVE_MIN_SIZE: (u16, u16) = (60, 16);
/// Largest size a manifest may allow for a granted file, bytes.
pub const GRANT_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest path in an argument or a file grant, bytes.
pub const PATH_BYTES: usize = 4096;
/// Longest pattern in a manifest, bytes.
pub const PATTERN_BYTES: usize = 4096;
/// Largest compiled form of a pattern, bytes.
pub const PATTERN_COMPILED_BYTES: usize = 64 * 1024;
/// Longest single element of an argv, bytes: what Linux takes, less its closing NUL.
pub const ARGV_ELEMENT_BYTES: usize = 128 * 1024 - 1;
/// Largest manifest, types or policy file, bytes.
pub const PROJECT_FILE_BYTES: u64 = 256 * 1024;
/// Most manifest or policy files in a project.
pub const PROJECT_FILES: usize = 1024;
