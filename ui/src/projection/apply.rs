//! The fold itself: one event at a time.

use super::row::{cut, outcome_word, row};
use super::{
    Approval, CALLS, Call, Clipped, FILES, FileRow, FileState, Message, Projection, ROWS, RUNS, Run, RunState, SETTLED,
    Session, SessionState, Settled, Speaker, Step,
};
use stockade_protocol::contract::{Contract, Effect, FileContract};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{
    ApprovalEvent, CallEvent, Event, EventEnvelope, GrantEvent, JournalEvent, RunEvent, RunOutcome, RuntimeEvent,
    TurnEvent,
};
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::result::{CallResult, Removal};

/// Longest message kept, bytes.
const MESSAGE: usize = 8 * 1024;
/// Longest output kept in a conversation, bytes.
const OUTPUT: usize = 2 * 1024;
/// Longest path or title kept, bytes.
const NAME: usize = 1024;

impl Projection {
    /// Folds in one event.
    pub fn apply(&mut self, envelope: &EventEnvelope) {
        self.time = envelope.time;
        self.apply_journal(envelope);
        match &envelope.event {
            Event::Journal(_) => {}
            Event::Runtime(event) => self.apply_runtime(envelope, event),
            Event::Run(event) => self.apply_run(envelope, event),
            Event::Turn(event) => self.apply_turn(envelope, event),
            Event::Call(event) => self.apply_call(envelope, event),
            Event::Approval(event) => self.apply_approval(envelope, event),
            Event::Session(event) => self.apply_session(envelope, event),
            Event::Grant(event) => self.apply_grant(envelope, event),
        }
        let tool = envelope.call.and_then(|call| self.calls.get(&call)).map(|call| call.tool.as_str());
        let session = envelope.session.and_then(|id| self.session(id)).map(|session| session.tool.as_str());
        let row = row(envelope, tool.unwrap_or_default(), session.unwrap_or_default());
        push_bounded(&mut self.rows, row, ROWS);
    }

    fn apply_journal(&mut self, envelope: &EventEnvelope) {
        let journal = &mut self.journal;
        journal.records += 1;
        if envelope.event.seals() {
            journal.sealed = Some(envelope.time);
            journal.unsealed = 0;
        } else {
            journal.unsealed += 1;
        }
        journal.closed = matches!(envelope.event, Event::Journal(JournalEvent::Closed {}));
        if let Event::Journal(JournalEvent::Recovered { cut_bytes, .. }) = &envelope.event {
            journal.cut_bytes = *cut_bytes;
        }
    }

    fn apply_runtime(&mut self, envelope: &EventEnvelope, event: &RuntimeEvent) {
        match event {
            RuntimeEvent::Started { version, project, root, tier, network, unenforced, tools, .. } => {
                self.settle_leftovers(envelope);
                self.project.name = cut(project);
                self.project.root = cut(root);
                self.project.version = cut(version);
                self.project.tier = cut(tier);
                self.project.network = cut(network);
                self.project.unenforced = unenforced.iter().take(16).map(|what| cut(what)).collect();
                self.project.tools = tools.len();
                self.project.running = true;
            }
            RuntimeEvent::Found { lost_calls, in_doubt_calls, interrupted_runs, .. } => {
                for call in lost_calls {
                    self.end_call(*call, envelope, "lost", None);
                }
                for call in in_doubt_calls {
                    self.end_call(*call, envelope, "in_doubt", None);
                }
                for run in interrupted_runs {
                    self.end_run(*run, envelope, RunOutcome::Interrupted);
                }
            }
            RuntimeEvent::Trusted { .. } => {}
            RuntimeEvent::Stopped {} => self.project.running = false,
        }
    }

    /// A program that starts has no runs, sessions or questions yet: what is still open belongs to one that is gone.
    fn settle_leftovers(&mut self, envelope: &EventEnvelope) {
        let running: Vec<RunId> =
            self.runs.iter().filter(|run| run.state == RunState::Running).map(|run| run.id).collect();
        for run in running {
            self.end_run(run, envelope, RunOutcome::Interrupted);
        }
        for session in self.sessions.iter_mut().filter(|session| session.is_open()) {
            session.state = SessionState::Closed { why: "interrupted".into(), removal: Removal::Unconfirmed };
            session.closed = Some(envelope.time);
        }
        self.drop_old_screens();
        let waiting: Vec<CallId> = self.waiting.iter().map(|approval| approval.call).collect();
        for call in waiting {
            self.end_call(call, envelope, "lost", None);
        }
    }

    fn apply_run(&mut self, envelope: &EventEnvelope, event: &RunEvent) {
        let Some(id) = envelope.run else { return };
        match event {
            RunEvent::Started { title, principal, origin } => {
                if self.run(id).is_none() {
                    self.make_room_for_run();
                    self.runs.push(Run::new(id, envelope.time));
                }
                if let Some(run) = self.run_mut(id) {
                    run.title = Clipped::new(title.raw(), NAME);
                    run.principal = Some(principal.clone());
                    run.origin = Some(*origin);
                    run.state = RunState::Running;
                }
            }
            RunEvent::Ended { outcome, answer, reason } => {
                self.end_run(id, envelope, *outcome);
                if let Some(run) = self.run_mut(id) {
                    run.reason = reason.as_ref().map(|reason| Clipped::new(reason.raw(), NAME));
                    let text = answer.as_ref().or(reason.as_ref()).map_or("", |text| text.raw());
                    let text = if text.is_empty() { outcome_word(*outcome) } else { text };
                    run.say(message(envelope, Speaker::End, text, MESSAGE, None));
                }
            }
        }
    }

    fn make_room_for_run(&mut self) {
        if self.runs.len() >= RUNS {
            let at = self.runs.iter().position(|run| run.state != RunState::Running).unwrap_or(0);
            self.runs.remove(at);
            self.dropped_runs += 1;
        }
    }

    fn end_run(&mut self, id: RunId, envelope: &EventEnvelope, outcome: RunOutcome) {
        if let Some(run) = self.run_mut(id) {
            run.state = RunState::Ended(outcome);
            run.ended = Some(envelope.time);
        }
        let waiting: Vec<CallId> =
            self.waiting.iter().filter(|approval| approval.run == Some(id)).map(|approval| approval.call).collect();
        for call in waiting {
            self.settle(call, Settled::Ended { outcome: "cancelled" });
        }
    }

    fn apply_turn(&mut self, envelope: &EventEnvelope, event: &TurnEvent) {
        let Some(run) = envelope.run.and_then(|id| self.run_mut(id)) else { return };
        match event {
            TurnEvent::Prompted { text } => run.say(message(envelope, Speaker::Person, text.raw(), MESSAGE, None)),
            TurnEvent::ModelRequested { .. } => {}
            TurnEvent::ModelReplied { text, calls } => {
                if !text.raw().trim().is_empty() {
                    run.say(message(envelope, Speaker::Agent, text.raw(), MESSAGE, None));
                }
                for call in calls {
                    run.say(message(envelope, Speaker::Proposal, &call.request.tool, NAME, Some(call.call)));
                }
            }
        }
    }

    fn apply_call(&mut self, envelope: &EventEnvelope, event: &CallEvent) {
        let Some(id) = envelope.call else { return };
        self.ensure_call(id, envelope);
        match event {
            CallEvent::Requested { request, .. } => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.tool = cut(&request.tool);
                }
                if let Some(run) = envelope.run.and_then(|run| self.run_mut(run)) {
                    run.calls += 1;
                    if !run.talk.iter().rev().take(64).any(|said| said.call == Some(id)) {
                        run.say(message(envelope, Speaker::Proposal, &request.tool, NAME, Some(id)));
                    }
                }
            }
            CallEvent::Prepared { contract, digest } => self.prepared(id, envelope, contract, *digest),
            CallEvent::Authorized { permitted, policies, .. } => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.policies = policies.iter().take(8).map(|policy| cut(policy)).collect();
                    call.step = if *permitted { Step::Passed } else { Step::Judged };
                }
            }
            CallEvent::Recorded { .. } => self.step(id, Step::Passed),
            CallEvent::Dispatched { .. } => {
                self.step(id, Step::Running);
                if let Some(session) = self.session_of(id)
                    && matches!(session.state, SessionState::Ready | SessionState::Starting)
                {
                    session.state = SessionState::Busy(id);
                }
            }
            CallEvent::Finished { result } => self.finished(id, envelope, result),
            CallEvent::Lost {} => self.end_call(id, envelope, "lost", None),
            CallEvent::InDoubt {} => self.end_call(id, envelope, "in_doubt", None),
        }
    }

    fn ensure_call(&mut self, id: CallId, envelope: &EventEnvelope) {
        if self.calls.contains_key(&id) {
            return;
        }
        if self.calls.len() >= CALLS
            && let Some(oldest) = self.call_order.pop_front()
        {
            self.calls.remove(&oldest);
        }
        self.call_order.push_back(id);
        let call = Call {
            id,
            run: envelope.run,
            session: envelope.session,
            tool: String::new(),
            act: String::new(),
            step: Step::Proposed,
            contract: None,
            policies: Vec::new(),
            since: envelope.time,
        };
        self.calls.insert(id, call);
    }

    fn prepared(&mut self, id: CallId, envelope: &EventEnvelope, contract: &Contract, digest: Digest) {
        let (session, act) = match &contract.effect {
            Effect::Oneshot { argv, .. } => (None, argv_line(argv)),
            Effect::Session { session, command, .. } => (Some(*session), command.clone()),
            Effect::TakeOver { session } => (Some(*session), "hands the keyboard to a person".into()),
        };
        if let Some(call) = self.calls.get_mut(&id) {
            call.tool = cut(&contract.tool);
            call.act = cut(&act);
            call.session = session.or(call.session);
            call.contract = Some(digest);
            call.step = Step::Judged;
        }
        if let Effect::Session { .. } = contract.effect
            && let Some(session) = self.session_of(id)
        {
            session.command = cut(contract.tool.split_once('.').map_or("", |(_, command)| command));
        }
        self.declared_files(id, envelope, &contract.files);
    }

    fn declared_files(&mut self, call: CallId, envelope: &EventEnvelope, files: &FileContract) {
        for input in files.inputs.iter().take(64) {
            let known = self
                .files
                .iter_mut()
                .find(|row| row.is_input() && row.run == envelope.run && row.path.text.raw() == input.path);
            let (bytes, sha256) = (Some(input.bytes), Some(input.sha256));
            if let Some(row) = known {
                (row.bytes, row.sha256, row.call, row.time) = (bytes, sha256, Some(call), envelope.time);
            } else {
                self.add_file(file(envelope, &input.path, FileState::Snapshot, bytes, sha256, Some(call)));
            }
        }
        if let Some(output) = &files.output
            && self.created_file(envelope.run, &output.path).is_none_or(|row| row.state != FileState::Staged)
        {
            self.set_file(envelope, &output.path, FileState::Declared, None, None);
        }
    }

    fn finished(&mut self, id: CallId, envelope: &EventEnvelope, result: &CallResult) {
        let refusal = result.refusal.as_ref().map(ToString::to_string);
        self.end_call(id, envelope, result.outcome(), refusal.as_deref());
        if let Some(call) = self.calls.get_mut(&id) {
            call.contract = call.contract.or(result.contract_digest);
            if call.tool.is_empty() {
                call.tool = cut(&result.tool);
            }
        }
        if let Some(session) = result.session.and_then(|session| self.session_mut(session)) {
            session.interactions = session.interactions.max(result.interaction_count);
        }
        if let Some(run) = envelope.run.and_then(|run| self.run_mut(run)) {
            let text = refusal
                .unwrap_or_else(|| if result.output.is_empty() { &result.stderr } else { &result.output }.clone());
            run.say(message(envelope, Speaker::Tool, &text, OUTPUT, Some(id)));
        }
    }

    fn step(&mut self, id: CallId, step: Step) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.step = step;
        }
    }

    fn end_call(&mut self, id: CallId, envelope: &EventEnvelope, outcome: &'static str, refusal: Option<&str>) {
        self.ensure_call(id, envelope);
        self.step(id, Step::Ended { outcome, refusal: refusal.map(cut) });
        self.settle(id, Settled::Ended { outcome });
        if let Some(session) = self.session_of(id)
            && session.state == SessionState::Busy(id)
        {
            session.state = SessionState::Ready;
        }
    }

    fn apply_approval(&mut self, envelope: &EventEnvelope, event: &ApprovalEvent) {
        let Some(id) = envelope.call else { return };
        match event {
            ApprovalEvent::Asked { contract, card, shown, expires } => {
                self.ensure_call(id, envelope);
                self.step(id, Step::Waiting);
                self.waiting.retain(|approval| approval.call != id);
                let session = envelope.session.or_else(|| self.call(id).and_then(|call| call.session));
                self.waiting.push(Approval {
                    call: id,
                    run: envelope.run,
                    session,
                    contract: *contract,
                    card: card.clone(),
                    shown: *shown,
                    asked: envelope.time,
                    expires: *expires,
                    refused: None,
                    settled: None,
                });
            }
            ApprovalEvent::Decided { receipt } => {
                self.step(id, Step::Passed);
                let body = &receipt.body;
                let reason = body.reason.as_deref().map(cut);
                self.settle(id, Settled::Decided { decision: body.decision, by: cut(&body.approver), reason });
            }
            ApprovalEvent::Expired { .. } => self.settle(id, Settled::Expired),
            ApprovalEvent::Void { .. } => {}
            ApprovalEvent::Refused { refusal } => {
                if let Some(approval) = self.waiting.iter_mut().find(|approval| approval.call == id) {
                    approval.refused = Some(cut(&refusal.reason));
                }
            }
        }
    }

    /// Takes a question out of the queue. What became of it first is what is remembered.
    fn settle(&mut self, id: CallId, settled: Settled) {
        if let Some(at) = self.waiting.iter().position(|approval| approval.call == id) {
            let mut approval = self.waiting.remove(at);
            approval.settled = Some(settled);
            push_bounded(&mut self.settled, approval, SETTLED);
        }
    }

    fn apply_grant(&mut self, envelope: &EventEnvelope, event: &GrantEvent) {
        match event {
            GrantEvent::Staged { path } => self.set_file(envelope, path.raw(), FileState::Staged, None, None),
            GrantEvent::Publishing { intent } => {
                let (bytes, sha256) = (Some(intent.bytes), Some(intent.sha256));
                self.set_file(envelope, &intent.path, FileState::Publishing, bytes, sha256);
            }
            GrantEvent::Published { file } => {
                let (bytes, sha256) = (Some(file.bytes), Some(file.sha256));
                self.set_file(envelope, &file.path, FileState::Published, bytes, sha256);
            }
            GrantEvent::Unpublished { path, reason } => {
                self.set_file(envelope, path.raw(), FileState::Unpublished(cut(reason)), None, None);
            }
            GrantEvent::Reconciled { path, state } => {
                self.set_file(envelope, path.raw(), FileState::Settled(cut(state)), None, None);
            }
        }
    }

    fn created_file(&mut self, run: Option<RunId>, path: &str) -> Option<&mut FileRow> {
        let matches = |row: &&mut FileRow| !row.is_input() && row.run == run && row.path.text.raw() == path;
        self.files.iter_mut().rev().find(matches)
    }

    fn set_file(
        &mut self,
        envelope: &EventEnvelope,
        path: &str,
        state: FileState,
        bytes: Option<u64>,
        sha256: Option<Digest>,
    ) {
        if let Some(row) = self.created_file(envelope.run, path)
            && row.state != FileState::Published
        {
            row.state = state;
            row.bytes = bytes.or(row.bytes);
            row.sha256 = sha256.or(row.sha256);
            row.call = envelope.call.or(row.call);
            row.time = envelope.time;
        } else {
            self.add_file(file(envelope, path, state, bytes, sha256, envelope.call));
        }
    }

    fn add_file(&mut self, row: FileRow) {
        push_bounded(&mut self.files, row, FILES);
    }

    fn run_mut(&mut self, id: RunId) -> Option<&mut Run> {
        self.runs.iter_mut().rev().find(|run| run.id == id)
    }

    fn session_of(&mut self, call: CallId) -> Option<&mut Session> {
        let session = self.calls.get(&call)?.session?;
        self.session_mut(session)
    }
}

fn push_bounded<T>(queue: &mut std::collections::VecDeque<T>, item: T, bound: usize) {
    if queue.len() >= bound {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn message(envelope: &EventEnvelope, speaker: Speaker, text: &str, bytes: usize, call: Option<CallId>) -> Message {
    Message { time: envelope.time, speaker, text: Clipped::new(text, bytes), call }
}

fn file(
    envelope: &EventEnvelope,
    path: &str,
    state: FileState,
    bytes: Option<u64>,
    sha256: Option<Digest>,
    call: Option<CallId>,
) -> FileRow {
    FileRow { path: Clipped::new(path, NAME), state, bytes, sha256, run: envelope.run, call, time: envelope.time }
}

/// An argv in one line: arguments that would run together are quoted.
fn argv_line(argv: &[String]) -> String {
    let quoted = |argument: &String| {
        if argument.is_empty() || argument.chars().any(|c| c.is_whitespace() || c == '"') {
            format!("{argument:?}")
        } else {
            argument.clone()
        }
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
