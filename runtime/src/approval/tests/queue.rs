//! Which answers count, by either clock, once, for what they name.

use super::*;
use crate::journal::Journal;
use crate::ports::Ports;
use crate::redact::Redactor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stockade_protocol::card::{Card, Field};
use stockade_protocol::command::Pending;
use stockade_protocol::event::{ApprovalEvent, Event, EventSource as _};
use stockade_protocol::ids::RunId;
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use tempfile::TempDir;
use tokio::task::JoinHandle;

struct Desk {
    _folder: TempDir,
    journal: Journal,
    approvals: Approvals,
    key: ApproverKey,
    clock: Arc<AtomicU64>,
    ports: Ports,
    nonces: AtomicU64,
}

type Asking = JoinHandle<Result<VerifiedReceipt, Refusal>>;

impl Desk {
    fn new(wait: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
        let now = Arc::clone(&clock);
        let ports = Ports::new(move || Timestamp(now.load(Ordering::SeqCst)), || Ports::system().random());
        let (dir, key) = (folder.path().join("journal"), folder.path().join("keys/journal"));
        let (journal, _) = Journal::open(&dir, &key, Redactor::standard(), ports.clone()).unwrap();
        let approvals = Approvals::new(journal.clone(), ports.clone(), wait, Duration::from_secs(60));
        let key = ApproverKey::ephemeral("tester");
        approvals.register("tester", key.public());
        Self { _folder: folder, journal, approvals, key, clock, ports, nonces: AtomicU64::new(0) }
    }

    fn patient() -> Self {
        Self::new(Duration::from_secs(60))
    }

    fn question(call: u8, contract: &str, reason: &str) -> Question {
        let card = Card {
            title: "agent x asks to run y".to_owned(),
            facts: vec![Field::one("command", contract)],
            claims: vec![Field::one("the caller says", reason)],
            warnings: Vec::new(),
        };
        Question {
            call: CallId::from_bits([call; 16]),
            run: RunId::from_bits([1; 16]),
            tool: "y".to_owned(),
            contract: Digest::of(contract),
            card,
        }
    }

    fn ask(&self, question: Question) -> Asking {
        let approvals = self.approvals.clone();
        tokio::spawn(async move { approvals.ask(question, std::future::pending()).await })
    }

    async fn waiting(&self, count: usize) -> Vec<Pending> {
        loop {
            let seen = self.journal.events().len();
            let pending = self.approvals.pending().await;
            if pending.len() == count {
                return pending;
            }
            self.journal.events().changed(seen).await;
        }
    }

    fn yes(&self, pending: &Pending) -> ReceiptBody {
        let nonce = format!("n{}", self.nonces.fetch_add(1, Ordering::SeqCst));
        body(pending.call, pending.contract, pending.shown, self.ports.now(), &nonce)
    }

    async fn answer(&self, body: ReceiptBody) -> Result<(), RefusalCode> {
        self.approvals.decide(self.key.sign(body).unwrap()).await.map_err(|refusal| refusal.code)
    }

    fn later(&self, ms: i64) {
        let now = self.clock.load(Ordering::SeqCst);
        self.clock.store(now.saturating_add_signed(ms), Ordering::SeqCst);
    }

    fn said(&self, wanted: impl Fn(&ApprovalEvent) -> bool) -> usize {
        let events = self.journal.events().pull(0, usize::MAX);
        events.iter().filter(|envelope| matches!(&envelope.event, Event::Approval(event) if wanted(event))).count()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> RefusalCode {
    result.unwrap_err().code
}

#[tokio::test]
async fn an_approval_is_used_once_and_by_no_later_runtime() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    let receipt = desk.key.sign(desk.yes(&pending)).unwrap();
    desk.approvals.decide(receipt.clone()).await.unwrap();
    let verified = asking.await.unwrap().unwrap();
    assert_eq!(verified.consume(&desk.ports).unwrap(), receipt);

    // The same question again, and the same answer again.
    let asking = desk.ask(Desk::question(1, "a", ""));
    desk.waiting(1).await;
    assert_eq!(code(desk.approvals.decide(receipt.clone()).await), RefusalCode::Stale);
    assert!(!asking.is_finished());
    asking.abort();

    // The next runtime has read the receipt in the journal.
    let next = Desk::patient();
    next.approvals.register("tester", desk.key.public());
    next.approvals.remember(&receipt.body.nonce);
    let asking = next.ask(Desk::question(1, "a", ""));
    next.waiting(1).await;
    assert_eq!(code(next.approvals.decide(receipt).await), RefusalCode::Stale);
    asking.abort();
}

#[tokio::test]
async fn a_key_withdrawn_after_the_answer_voids_it() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    desk.answer(desk.yes(&pending)).await.unwrap();
    let verified = asking.await.unwrap().unwrap();
    desk.approvals.withdraw(&desk.key.public());
    let refusal = verified.consume(&desk.ports).unwrap_err();
    assert_eq!((refusal.code, refusal.authority), (RefusalCode::Stale, Authority::Person));
    // And before the answer.
    let asking = desk.ask(Desk::question(2, "b", ""));
    let pending = desk.waiting(1).await.remove(0);
    assert_eq!(desk.answer(desk.yes(&pending)).await, Err(RefusalCode::Invalid));
    asking.abort();
}

#[tokio::test]
async fn the_last_millisecond_counts_and_the_next_does_not() {
    for (late, used) in [(30_000, true), (30_001, false)] {
        let desk = Desk::patient();
        let asking = desk.ask(Desk::question(1, "a", ""));
        let pending = desk.waiting(1).await.remove(0);
        desk.answer(desk.yes(&pending)).await.unwrap();
        let verified = asking.await.unwrap().unwrap();
        desk.later(late);
        match verified.consume(&desk.ports) {
            Ok(_) => assert!(used),
            Err(refusal) => {
                assert_eq!((used, refusal.code, refusal.authority), (false, RefusalCode::Expired, Authority::Clock));
            }
        }
    }
    for (late, taken) in [(30_000, Ok(())), (30_001, Err(RefusalCode::Expired))] {
        let desk = Desk::patient();
        let asking = desk.ask(Desk::question(1, "a", ""));
        let pending = desk.waiting(1).await.remove(0);
        let yes = desk.yes(&pending);
        desk.later(late);
        assert_eq!(desk.answer(yes).await, taken);
        asking.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn setting_the_clock_back_makes_no_receipt_live_longer() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    desk.answer(desk.yes(&pending)).await.unwrap();
    let verified = asking.await.unwrap().unwrap();
    desk.later(-3_600_000);
    tokio::time::advance(Duration::from_millis(30_001)).await;
    assert_eq!(code(verified.consume(&desk.ports)), RefusalCode::Expired);
}

#[tokio::test]
async fn an_answer_from_the_future_or_for_too_long_is_none() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    let now = desk.ports.now();
    let with = |time: Timestamp, expires: Timestamp| ReceiptBody { time, expires, ..desk.yes(&pending) };
    for (time, expires) in [
        (now.plus_ms(5_001), now.plus_ms(6_000)),
        (now, now.plus_ms(60_001)),
        (Timestamp(0), now.plus_ms(1)),
        (now, Timestamp((1 << 53) - 1)),
    ] {
        assert_eq!(desk.answer(with(time, expires)).await, Err(RefusalCode::Invalid), "{time:?} {expires:?}");
    }
    desk.answer(with(now.plus_ms(5_000), now.plus_ms(60_000))).await.unwrap();
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn another_call_is_answered_only_when_it_does_and_was_shown_the_very_same() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(2, "a", "to clean up"));
    let pending = desk.waiting(1).await.remove(0);
    // An answer to a call that is gone, which would have done the same but said something else of it.
    let mut other = desk.yes(&pending);
    other.call = CallId::from_bits([1; 16]);
    other.shown = Desk::question(1, "a", "to look").card.digest();
    assert_eq!(desk.answer(other).await, Err(RefusalCode::Stale));
    // And one that did something else.
    let mut other = desk.yes(&pending);
    other.call = CallId::from_bits([1; 16]);
    other.contract = Digest::of("b");
    assert_eq!(desk.answer(other).await, Err(RefusalCode::Stale));
    assert_eq!(desk.waiting(1).await.len(), 1);
    // Only the call's number differs.
    let mut other = desk.yes(&pending);
    other.call = CallId::from_bits([1; 16]);
    desk.answer(other).await.unwrap();
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_receipt_that_cannot_be_kept_as_it_was_signed_is_refused() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", "uses password=hunter2hunter2"));
    let pending = desk.waiting(1).await.remove(0);
    assert_eq!(pending.shown, pending.card.digest());
    assert!(!pending.card.text().contains("hunter2"), "{}", pending.card.text());
    let with = |reason: &str, nonce: &str| ReceiptBody {
        reason: Some(reason.to_owned()),
        nonce: nonce.to_owned(),
        ..desk.yes(&pending)
    };
    assert_eq!(desk.answer(with("no password=hunter2hunter2", "n")).await, Err(RefusalCode::Invalid));
    assert_eq!(desk.answer(with(&"x".repeat(limits::REASON_BYTES + 1), "n")).await, Err(RefusalCode::Invalid));
    assert_eq!(desk.answer(with("fine", "")).await, Err(RefusalCode::Invalid));
    assert_eq!(desk.answer(with("fine", &"n".repeat(limits::NONCE_BYTES + 1))).await, Err(RefusalCode::Invalid));
    desk.answer(with("fine", "n")).await.unwrap();
    asking.await.unwrap().unwrap();
    let all = desk.journal.events().pull(0, usize::MAX);
    let receipts: Vec<_> = all
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::Approval(ApprovalEvent::Decided { receipt }) => Some(receipt),
            _ => None,
        })
        .collect();
    assert!(receipts.len() == 1 && verify_receipt(receipts[0]), "{receipts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_no_more_questions_open_than_allowed() {
    let desk = Desk::patient();
    let askings: Vec<Asking> = (0..40).map(|at| desk.ask(Desk::question(at, "a", ""))).collect();
    desk.waiting(limits::PENDING_APPROVALS_PER_RUN).await;
    while askings.iter().filter(|asking| asking.is_finished()).count() < 35 {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.approvals.pending().await.len(), limits::PENDING_APPROVALS_PER_RUN);
    let mut refused = 0;
    for asking in askings {
        if asking.is_finished() {
            assert_eq!(code(asking.await.unwrap()), RefusalCode::Limit);
            refused += 1;
        } else {
            asking.abort();
        }
    }
    assert_eq!(refused, 35);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_at_the_end_of_the_wait_is_taken_or_expired_and_never_both() {
    let (mut taken, mut expired) = (0, 0);
    for round in 0..60 {
        let desk = Desk::new(Duration::from_millis(30));
        let asking = desk.ask(Desk::question(1, "a", ""));
        let pending = desk.waiting(1).await.remove(0);
        tokio::time::sleep(Duration::from_micros(26_000 + round * 100)).await;
        let answered = desk.answer(desk.yes(&pending)).await;
        let asked = asking.await.unwrap();
        let said = (
            desk.said(|event| matches!(event, ApprovalEvent::Decided { .. })),
            desk.said(|event| matches!(event, ApprovalEvent::Expired { .. })),
        );
        match answered {
            Ok(()) => {
                assert!(asked.is_ok(), "the approver was told yes: {asked:?}");
                assert_eq!(said, (1, 0));
                taken += 1;
            }
            Err(code) => {
                assert_eq!((code, asked.unwrap_err().code), (RefusalCode::Stale, RefusalCode::Expired));
                assert_eq!(said, (0, 1));
                expired += 1;
            }
        }
    }
    assert_eq!(taken + expired, 60);
}

#[tokio::test]
async fn a_journal_that_takes_no_more_ends_every_question() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    desk.journal.close().await.unwrap();
    // The answer cannot be written down, so it is none.
    assert_eq!(desk.answer(desk.yes(&pending)).await, Err(RefusalCode::Unavailable));
    let refusal = asking.await.unwrap().unwrap_err();
    assert_eq!((refusal.code, refusal.authority), (RefusalCode::Unavailable, Authority::Journal));
    let refusal = desk.approvals.ask(Desk::question(2, "b", ""), std::future::pending()).await.unwrap_err();
    assert_eq!((refusal.code, refusal.authority), (RefusalCode::Unavailable, Authority::Journal));
    assert_eq!(desk.approvals.pending().await.len(), 0);
}

#[tokio::test]
async fn dropping_who_asks_takes_the_question_away() {
    let desk = Desk::patient();
    let asking = desk.ask(Desk::question(1, "a", ""));
    let pending = desk.waiting(1).await.remove(0);
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_eq!(desk.answer(desk.yes(&pending)).await, Err(RefusalCode::Stale));
    assert_eq!(desk.said(|event| matches!(event, ApprovalEvent::Decided { .. })), 0);
}
