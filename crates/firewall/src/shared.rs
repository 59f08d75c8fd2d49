//! What the threads of one firewall have to do with each other: frames for the pipes that one of
//! them has, news of neighbours, and the end.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::join::{Join, Parcel, Place};
use crate::mail::Mail;

/// Most frames that lie in letters to the thread that has the pipes.
const MOST_POSTED: u64 = 16_384;

/// Words that all threads read.
pub(crate) struct Common {
    /// Frames that are not where their flow is known: in letters, and in pipes.
    abroad: AtomicU64,
    /// Those of them in letters to the thread that has the pipes.
    posted: AtomicU64,
    /// Ports will bring no more frames.
    no_more: AtomicBool,
    /// Threads that have sent all they had.
    done: AtomicU64,
    /// Rings when one is, and when frames may be taken.
    mail: Mail,
}

impl Common {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            abroad: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            no_more: AtomicBool::new(false),
            done: AtomicU64::new(0),
            mail: Mail::new()?,
        })
    }

    /// Becomes readable when a thread is done, and when frames may be taken.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.mail.as_fd()
    }

    /// Costs one load where it does not ring.
    pub(crate) fn silence(&self) {
        drop(self.mail.take());
    }

    /// Says that the rules to begin with hold: frames may be taken.
    pub(crate) fn begin(&self) {
        self.mail.begin();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.mail.has_begun()
    }

    /// Says that no frames will come any more.
    pub(crate) fn end(&self) {
        // Release: who sees it sees all frames that were handed over before.
        self.no_more.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.no_more.load(Ordering::Acquire)
    }

    /// How many threads are done.
    pub(crate) fn done(&self) -> u64 {
        // Acquire: pairs with the Release in `say_done`.
        self.done.load(Ordering::Acquire)
    }

    /// Says that this thread has sent all it had.
    pub(crate) fn say_done(&self) {
        // Release: who counts it sees what was sent before.
        self.done.fetch_add(1, Ordering::Release);
        self.mail.send(Box::new(|_, _, _| ()));
    }
}

/// One thread's share in it.
pub(crate) struct Shared {
    own: Place,
    mails: Vec<Arc<Mail>>,
    pub(crate) common: Arc<Common>,
}

impl Shared {
    pub(crate) fn new(own: Place, mails: Vec<Arc<Mail>>, common: Arc<Common>) -> Self {
        Self { own, mails, common }
    }

    /// Sends what the join has for others.
    pub(crate) fn exchange(&self, join: &mut Join) {
        let parcels = join.parcels();
        if self.own == 0 {
            self.common.abroad.fetch_sub(join.guests_lost(), Ordering::Relaxed);
            self.send_home(parcels);
        } else {
            self.send_away(parcels);
            join.set_crowded(self.common.posted.load(Ordering::Relaxed) > MOST_POSTED);
        }
        let news = join.news();
        if news.is_empty() {
            return;
        }
        for (_, mail) in (0..).zip(&self.mails).filter(|(place, _)| *place != self.own) {
            let news = news.clone();
            mail.send(Box::new(move |join, _, _| join.hear(news)));
        }
    }

    fn send_away(&self, parcels: Vec<Parcel>) {
        let count = parcels.len() as u64;
        if count == 0 {
            return;
        }
        // Relaxed: the frames themselves go through the letter box, which orders them.
        self.common.abroad.fetch_add(count, Ordering::Relaxed);
        self.common.posted.fetch_add(count, Ordering::Relaxed);
        let common = self.common.clone();
        self.mails[0].send(Box::new(move |join, aside, now| {
            common.posted.fetch_sub(count, Ordering::Relaxed);
            join.take_parcels(parcels, now, aside);
        }));
    }

    fn send_home(&self, parcels: Vec<Parcel>) {
        let mut by_home: Vec<Vec<Parcel>> = Vec::new();
        by_home.resize_with(self.mails.len(), Vec::new);
        parcels.into_iter().for_each(|parcel| by_home[usize::from(parcel.home())].push(parcel));
        for (mail, parcels) in self.mails.iter().zip(by_home) {
            let count = parcels.len() as u64;
            if count == 0 {
                continue;
            }
            let common = self.common.clone();
            mail.send(Box::new(move |join, aside, now| {
                join.take_parcels(parcels, now, aside);
                // At home, whatever comes of them.
                common.abroad.fetch_sub(count, Ordering::Relaxed);
            }));
        }
    }

    /// Whether nothing more can come from other threads.
    pub(crate) fn is_over(&self) -> bool {
        self.common.is_ending() && self.common.abroad.load(Ordering::Relaxed) == 0
    }
}
