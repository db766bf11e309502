//! What must hold before an output is published, apart from its bytes.

use super::*;
use crate::grant::{GrantRequest, Grants, Prepared, ProjectRoot};
use crate::ports::Ports;
use crate::redact::Redactor;
use std::io::Write as _;
use std::path::Path;
use stockade_protocol::event::EventSource as _;

fn prepared(project: &Path) -> Arc<Prepared> {
    let root = Arc::new(ProjectRoot::open(project, &[]).unwrap());
    let request = GrantRequest { read: Vec::new(), create: vec!["out/file.txt".to_owned()], max_file_bytes: 4096 };
    Arc::new(Grants::prepare(&root, &request).unwrap())
}

fn staged() -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"done\n").unwrap();
    file.into()
}

#[tokio::test]
async fn nothing_is_published_before_the_worker_is_confirmed_gone() {
    for (removal, published) in [(Removal::Unconfirmed, false), (Removal::Confirmed, true)] {
        let base = tempfile::tempdir().unwrap();
        let project = base.path().join("project");
        std::fs::create_dir_all(project.join("out")).unwrap();
        let (journal, _) = Journal::open(
            &base.path().join("journal"),
            &base.path().join("keys/journal"),
            Redactor::standard(),
            Ports::system(),
        )
        .unwrap();
        let run = RunId::from_bits([1; 16]);
        let call = CallId::from_bits([2; 16]);
        let ended = publish(prepared(&project), staged(), removal, &journal, run, None, call).await;
        let events = journal.events().pull(0, usize::MAX);
        let said = |wanted: fn(&GrantEvent) -> bool| {
            events.iter().any(|envelope| matches!(&envelope.event, Event::Grant(event) if wanted(event)))
        };
        assert_eq!(project.join("out/file.txt").exists(), published);
        assert_eq!(said(|event| matches!(event, GrantEvent::Publishing { .. })), published);
        assert_eq!(said(|event| matches!(event, GrantEvent::Published { .. })), published);
        assert_eq!(said(|event| matches!(event, GrantEvent::Unpublished { .. })), !published);
        match ended {
            Ok(file) => assert_eq!((published, file.path.as_str(), file.bytes), (true, "out/file.txt", 5)),
            Err(refusal) => {
                assert_eq!(
                    (published, refusal.code, refusal.authority),
                    (false, RefusalCode::Unpublished, Authority::Tier)
                );
                assert!(refusal.reason.contains("was not confirmed"), "{refusal}");
            }
        }
        journal.close().await.unwrap();
    }
}
