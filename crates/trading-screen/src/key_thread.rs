//! The thread that reads keys.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// Events that wait for the screen.
const WAITING_EVENTS: usize = 256;
/// Longest time until the thread notices the end.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads the events of the terminal until it is dropped.
#[derive(Debug)]
pub struct KeyThread {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeyThread {
    /// Starts the thread. An error of the terminal is the last event.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub fn start() -> io::Result<(Self, mpsc::Receiver<io::Result<Event>>)> {
        let (sender, events) = mpsc::channel(WAITING_EVENTS);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("keys".into()).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let event = match event::poll(PAUSE) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let is_end = event.is_err();
                if sender.blocking_send(event).is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok((KeyThread { is_over, thread: Some(thread) }, events))
    }
}

impl Drop for KeyThread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            drop(thread.join());
        }
    }
}
