//! What waits for a person, and the rules an answer must meet.

use super::key::verify_receipt;
use crate::journal::{Entry, Journal};
use crate::ports::Ports;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockade_protocol::card::Card;
use stockade_protocol::command::Pending;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{ApprovalEvent, Event};
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::limits;
use stockade_protocol::receipt::{Decision, Receipt};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How far the clock of an approver's program may be ahead, milliseconds.
const CLOCK_SKEW_MS: u64 = 5_000;

/// A receipt whose signature, key, binding and expiry were checked, and which nobody has used. It cannot be cloned,
/// read from outside or made elsewhere: the call that takes it is the one that uses it.
#[derive(Debug)]
pub struct VerifiedReceipt {
    receipt: Receipt,
    usable_until: Instant,
    ledger: Arc<Ledger>,
}

impl VerifiedReceipt {
    /// The receipt.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Uses the receipt up. `Ok` for exactly one of any number of attempts, whichever value they come from.
    ///
    /// # Errors
    /// `expired` after its life by either clock, `stale` when its key was withdrawn or it was used before.
    pub(crate) fn consume(self, ports: &Ports) -> Result<Receipt, Refusal> {
        if Instant::now() > self.usable_until || ports.now() > self.receipt.body.expires {
            return Err(Refusal::new(
                RefusalCode::Expired,
                Authority::Clock,
                "the approval was given but its time to be used is over",
            )
            .next("Propose the call again"));
        }
        let mut ledger = self.ledger.lock();
        if !ledger.keys.contains_key(&self.receipt.body.key) {
            return Err(Refusal::new(
                RefusalCode::Stale,
                Authority::Person,
                "the approver's key is no longer registered",
            ));
        }
        if !ledger.used.insert(self.receipt.body.nonce.clone()) {
            return Err(Refusal::new(
                RefusalCode::Stale,
                Authority::Person,
                "this receipt was already used: one receipt runs one call",
            ));
        }
        Ok(self.receipt)
    }
}

/// A person's answer as the waiting call sees it.
#[derive(Debug)]
pub enum Answer {
    /// Run it.
    Approved(VerifiedReceipt),
    /// Do not; a refusal with the person's reason.
    Refused(Refusal),
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call.
    pub call: CallId,
    /// Its run.
    pub run: RunId,
    /// Its tool.
    pub tool: String,
    /// Its contract digest.
    pub contract: Digest,
    /// What is shown.
    pub card: Card,
}

#[derive(Debug, Default)]
struct Ledger(Mutex<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    /// Public key to name.
    keys: BTreeMap<String, String>,
    /// Nonces of receipts that were used or refused a second time.
    used: HashSet<String>,
    /// Nonces of receipts that were accepted as answers.
    answered: HashSet<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Waiting {
    pending: Pending,
    answer: oneshot::Sender<Answer>,
}

/// The approvals of one runtime.
#[derive(Debug, Clone)]
pub struct Approvals {
    journal: Journal,
    ports: Ports,
    ledger: Arc<Ledger>,
    waiting: Arc<Mutex<BTreeMap<(u64, CallId), Waiting>>>,
    /// Held while a question is journaled and set down, so that whoever saw its event also finds it waiting.
    asking: Arc<tokio::sync::Mutex<()>>,
    wait: Duration,
    receipt_life: Duration,
}

impl Approvals {
    /// An empty queue. `wait` is how long a question stays open, `receipt_life` how long an answer may be used.
    #[must_use]
    pub fn new(journal: Journal, ports: Ports, wait: Duration, receipt_life: Duration) -> Self {
        Self {
            journal,
            ports,
            ledger: Arc::default(),
            waiting: Arc::default(),
            asking: Arc::default(),
            wait,
            receipt_life,
        }
    }

    /// Lets a key sign answers from now on. The caller has journaled its public half.
    pub fn register(&self, name: impl Into<String>, public: impl Into<String>) {
        self.ledger.lock().keys.insert(public.into(), name.into());
    }

    /// Takes a key's authority away, also for answers given and not yet used.
    pub fn withdraw(&self, public: &str) {
        self.ledger.lock().keys.remove(public);
    }

    /// Remembers a receipt of an earlier runtime: it can never be used again.
    pub fn remember(&self, nonce: impl Into<String>) {
        let nonce = nonce.into();
        let mut ledger = self.ledger.lock();
        ledger.used.insert(nonce.clone());
        ledger.answered.insert(nonce);
    }

    /// What waits, oldest first.
    pub async fn pending(&self) -> Vec<Pending> {
        let _settled = self.asking.lock().await;
        self.lock().values().map(|waiting| waiting.pending.clone()).collect()
    }

    /// Asks and waits for an answer, the end of the wait or the run's end, whichever comes first. The question and
    /// its end are journaled. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// `rejected` with the person's reason, `expired`, `cancelled`, or a refusal by the journal.
    pub async fn ask(
        &self,
        question: Question,
        cancelled: impl Future<Output = Refusal> + Send,
    ) -> Result<VerifiedReceipt, Refusal> {
        let (pending, mut answer, withdraw) = self.open(question).await?;
        let given_up = tokio::select! {
            biased;
            told = &mut answer => return taken(told),
            refusal = cancelled => Some(refusal),
            () = tokio::time::sleep(self.wait) => None,
        };
        // An answer that was taken before this moment is being written down, and it counts: whoever gave it is told so,
        // and who waits for it accounts for it.
        if !withdraw.now() {
            return taken(answer.await);
        }
        match given_up {
            Some(refusal) => Err(refusal),
            None => Err(self.expired(&pending).await?),
        }
    }

    /// Records that nobody answered.
    async fn expired(&self, pending: &Pending) -> Result<Refusal, Refusal> {
        let why = if self.ledger.lock().keys.is_empty() { "no-approver" } else { "no-answer" };
        let event = Event::Approval(ApprovalEvent::Expired { why: why.to_owned() });
        let entry = Entry { run: Some(pending.run), session: None, call: Some(pending.call), event };
        self.journal.append(entry).await.map_err(|error| error.refusal())?;
        let reason = format!("nobody answered within {} s ({why})", self.wait.as_secs());
        Ok(Refusal::new(RefusalCode::Expired, Authority::Clock, reason)
            .next("Ask again when an approver is there: `stockade approvals list` shows what waits"))
    }

    async fn open(&self, question: Question) -> Result<(Pending, oneshot::Receiver<Answer>, Withdraw), Refusal> {
        // What is shown, here and in the journal, is the same.
        let unfit =
            |error: serde_json::Error| Refusal::new(RefusalCode::Invalid, Authority::Journal, error.to_string());
        let (card, _replaced) = self.journal.redactor().redacted(question.card).map_err(unfit)?;
        let shown = card.digest();
        let _asking = self.asking.lock().await;
        let in_run = self.lock().values().filter(|waiting| waiting.pending.run == question.run).count();
        if in_run >= limits::PENDING_APPROVALS_PER_RUN {
            let reason = format!("{in_run} calls of this run already wait for a person, the most a run may have");
            return Err(Refusal::new(RefusalCode::Limit, Authority::Person, reason).next("Wait for their answers"));
        }
        let asked = self.ports.now();
        let pending = Pending {
            call: question.call,
            run: question.run,
            tool: question.tool,
            contract: question.contract,
            card,
            shown,
            asked,
            expires: asked.plus_ms(millis(self.wait)),
        };
        let event = ApprovalEvent::Asked {
            contract: pending.contract,
            card: pending.card.clone(),
            shown,
            expires: pending.expires,
        };
        let entry =
            Entry { run: Some(pending.run), session: None, call: Some(pending.call), event: Event::Approval(event) };
        let seq = self.journal.append(entry).await.map_err(|error| error.refusal())?;
        let (sender, receiver) = oneshot::channel();
        let key = (seq, pending.call);
        self.lock().insert(key, Waiting { pending: pending.clone(), answer: sender });
        Ok((pending, receiver, Withdraw { approvals: self.clone(), key }))
    }

    /// Takes an answer. It is journaled before the waiting call sees it.
    ///
    /// # Errors
    /// `invalid` for a bad signature or an unknown key, `stale` for a binding mismatch (with both digests), an answer
    /// to nothing that waits or a second use, `expired` for one past its time. The refusal is journaled too.
    pub async fn decide(&self, receipt: Receipt) -> Result<(), Refusal> {
        let judged = {
            let _settled = self.asking.lock().await;
            self.judge(&receipt)
        };
        let (key, usable_until) = match judged {
            Ok(judged) => judged,
            Err(refusal) => {
                let event = Event::Approval(ApprovalEvent::Refused { refusal: refusal.clone() });
                let entry = Entry { run: None, session: None, call: Some(receipt.body.call), event };
                self.journal.append(entry).await.map_err(|error| error.refusal())?;
                return Err(refusal);
            }
        };
        // From here on nobody else can answer it; if its wait ends meanwhile, the answer is recorded and void.
        let Some(waiting) = self.lock().remove(&key) else {
            return Err(gone());
        };
        let run = Some(waiting.pending.run);
        let entry = |event| Entry { run, session: None, call: Some(key.1), event: Event::Approval(event) };
        self.journal
            .append(entry(ApprovalEvent::Decided { receipt: receipt.clone() }))
            .await
            .map_err(|error| error.refusal())?;
        let nonce = receipt.body.nonce.clone();
        let answer = match receipt.body.decision {
            Decision::Approve => {
                Answer::Approved(VerifiedReceipt { receipt, usable_until, ledger: self.ledger.clone() })
            }
            Decision::Reject => {
                let reason = receipt.body.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
                Answer::Refused(
                    Refusal::new(RefusalCode::Rejected, Authority::Person, reason)
                        .by_rule(receipt.body.approver.clone()),
                )
            }
        };
        if waiting.answer.send(answer).is_err() {
            let refusal = gone();
            let void = ApprovalEvent::Void { receipt: nonce, refusal: refusal.clone() };
            self.journal.append(entry(void)).await.map_err(|error| error.refusal())?;
            return Err(refusal);
        }
        Ok(())
    }

    /// All rules but the journal's. On success the nonce is marked, so a second use of the same receipt fails here.
    fn judge(&self, receipt: &Receipt) -> Result<((u64, CallId), Instant), Refusal> {
        let body = &receipt.body;
        let invalid = |reason: &str| Refusal::new(RefusalCode::Invalid, Authority::Person, reason);
        if !verify_receipt(receipt) {
            return Err(invalid("the receipt's signature does not verify"));
        }
        if let Some(reason) = &body.reason {
            if reason.len() > limits::REASON_BYTES {
                return Err(invalid("the reason is too long").next("Answer again with a shorter one"));
            }
            if self.journal.redactor().text(reason).1 {
                return Err(invalid(
                    "the reason holds what looks like a secret, which the journal would not keep as signed",
                )
                .next("Answer again without it"));
            }
        }
        if !(1..=limits::NONCE_BYTES).contains(&body.nonce.len()) {
            return Err(invalid("the receipt's nonce is empty or too long"));
        }
        let now = self.ports.now();
        if now > body.expires {
            return Err(
                Refusal::new(RefusalCode::Expired, Authority::Clock, "the receipt's time is over").next("Answer again")
            );
        }
        if body.time > now.plus_ms(CLOCK_SKEW_MS) || body.expires.since(body.time) > millis(self.receipt_life) {
            return Err(invalid("the receipt's times are not those of an answer given now").next("Answer again"));
        }
        let waiting = self.lock();
        let mut ledger = self.ledger.lock();
        if ledger.keys.get(&body.key) != Some(&body.approver) {
            return Err(invalid("the receipt's key is not registered under its approver's name")
                .next("The workbench registers the key of the person who started it"));
        }
        if ledger.answered.contains(&body.nonce) {
            return Err(Refusal::new(
                RefusalCode::Stale,
                Authority::Person,
                "this receipt was already used: one receipt runs one call",
            ));
        }
        // The call that was shown, or else the oldest that would do exactly the same and was shown with the same text.
        let same = |pending: &Pending| pending.contract == body.contract && pending.shown == body.shown;
        let found = waiting
            .iter()
            .find(|(_, waiting)| waiting.pending.call == body.call)
            .or_else(|| waiting.iter().find(|(_, waiting)| same(&waiting.pending)));
        let (key, found) = found.ok_or_else(gone)?;
        let mismatch = |what: &str, asked: Digest, answered: Digest| {
            let reason = format!("binding mismatch: the {what} asked is {asked}, the one answered is {answered}");
            Refusal::new(RefusalCode::Stale, Authority::Person, reason).next("Look at the call again and answer anew")
        };
        if found.pending.contract != body.contract {
            return Err(mismatch("contract", found.pending.contract, body.contract));
        }
        if found.pending.shown != body.shown {
            return Err(mismatch("text", found.pending.shown, body.shown));
        }
        ledger.answered.insert(body.nonce.clone());
        // By the wall clock now, by the monotonic one from here on: setting a clock back makes no receipt live longer.
        let left = Duration::from_millis(body.expires.since(now)).min(self.receipt_life);
        Ok((*key, Instant::now() + left))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, CallId), Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken(told: Result<Answer, oneshot::error::RecvError>) -> Result<VerifiedReceipt, Refusal> {
    match told {
        Ok(Answer::Approved(receipt)) => Ok(receipt),
        Ok(Answer::Refused(refusal)) => Err(refusal),
        Err(_) => {
            let reason = "the answer could not be written down";
            Err(Refusal::new(RefusalCode::Unavailable, Authority::Journal, reason))
        }
    }
}

fn gone() -> Refusal {
    Refusal::new(RefusalCode::Stale, Authority::Person, "nothing waits for this answer any more")
        .next("`stockade approvals list` shows what waits")
}

/// Takes a question away when the asking call goes, however it goes.
#[derive(Debug)]
struct Withdraw {
    approvals: Approvals,
    key: (u64, CallId),
}

impl Withdraw {
    /// Takes the question away now; `false` when an answer to it was taken before.
    fn now(&self) -> bool {
        self.approvals.lock().remove(&self.key).is_some()
    }
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.now();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
