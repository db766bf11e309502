//! What people do to a live session: its keyboard, its size, its end.

use super::{Actor, Control, Stop, gone, stop};
use std::time::Duration;
use stockade_protocol::event::SessionEvent;
use stockade_protocol::limits::TERMINAL_MAX;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use tokio::io::AsyncWriteExt as _;

/// Longest wait for a program to take what a person types.
const TYPING: Duration = Duration::from_secs(1);

fn foreign() -> Refusal {
    Refusal::new(RefusalCode::Denied, Authority::Person, "you do not have this session's keyboard")
        .next("Take the session over first; who has it must hand it back")
}

impl Actor {
    /// Does what is asked. A refusal goes to who asked; an error ends the session.
    pub(super) async fn control(&mut self, control: Option<Control>) -> Result<(), Stop> {
        match control {
            None => return Err(stop("closed", RefusalCode::Cancelled, Authority::Person, "the session was closed")),
            Some(Control::Close { why }) => {
                let reason = format!("the session was closed ({why})");
                return Err(stop(why, RefusalCode::Cancelled, Authority::Person, reason));
            }
            Some(Control::Resize { columns, rows }) => {
                let (columns, rows) = (columns.clamp(2, TERMINAL_MAX.0), rows.clamp(1, TERMINAL_MAX.1));
                if self.size != (columns, rows) && self.pty.resize(columns, rows).is_ok() {
                    self.size = (columns, rows);
                    self.record(SessionEvent::Resized { columns, rows }).await?;
                }
            }
            Some(Control::TakeOver { by, connection, reply }) => {
                let answer = match &self.keyboard {
                    Some((other, _)) if *other != by => Err(foreign()),
                    None if self.typing => Err(Refusal::new(
                        RefusalCode::Limit,
                        Authority::Person,
                        "a line is being typed and the program has not taken all of it",
                    )
                    .next("Try again, or close the session")),
                    _ => {
                        self.record(SessionEvent::TakenOver { by: by.clone() }).await?;
                        self.keyboard = Some((by, connection));
                        self.slot.touch();
                        Ok(())
                    }
                };
                drop(reply.send(answer));
            }
            Some(Control::HandBack { by, reply }) => {
                let answer = if self.has_keyboard(&by) { self.hand_back().await.map(Ok)? } else { Err(foreign()) };
                drop(reply.send(answer));
            }
            Some(Control::Release { connection }) => {
                if self.keyboard.as_ref().is_some_and(|(_, on)| *on == connection) {
                    self.hand_back().await?;
                }
            }
            Some(Control::Type { by, bytes, reply }) => {
                let answer = if self.has_keyboard(&by) {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.record(SessionEvent::Input { by, text: text.into() }).await?;
                    self.type_in(&bytes).await
                } else {
                    Err(foreign())
                };
                drop(reply.send(answer));
            }
        }
        Ok(())
    }

    fn has_keyboard(&self, by: &stockade_protocol::ids::Principal) -> bool {
        self.keyboard.as_ref().is_some_and(|(person, _)| person == by)
    }

    async fn hand_back(&mut self) -> Result<(), Stop> {
        if let Some((by, _)) = self.keyboard.take() {
            self.record(SessionEvent::HandedBack { by }).await?;
        }
        Ok(())
    }

    async fn type_in(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        // A program that does not read must not hold up its own end.
        match tokio::time::timeout(TYPING, self.pty.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone().refusal),
            Err(_) => {
                let reason = "the program does not read what is typed";
                Err(Refusal::new(RefusalCode::Limit, Authority::Tier, reason).next("Close the session"))
            }
        }
    }
}
