//! The order of packets: what is new, doubled, late, lost, and when a sender has started over.

/// A number this far behind (five seconds at 50 Hz) is a sender that started over, not a late packet.
const FAR_BEHIND: i64 = 250;
/// A number this far ahead (a minute at 50 Hz) says the same.
const FAR_AHEAD: i64 = 3000;
/// So many packets behind, one after the other in good order, are a sender that started over nearby.
const RUN: u32 = 25;
/// A time this far behind (seconds) is a sender that started over.
const LONG_AGO: f64 = 5.0;

/// What a packet is, by its number or time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first of a stream, or the first after the sender started over.
    First,
    /// Newer than everything before; so many numbers between were not seen.
    Next { lost: u64 },
    /// Seen before.
    Doubled,
    /// Older than the newest.
    Late,
}

/// Follows frame numbers (32 bits, wrapping).
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    newest: Option<u32>,
    /// The newest number without wrapping, counted from the stream's first.
    unwrapped: i64,
    /// Bit k: number newest - k was seen.
    recent: u128,
    /// The sender's wall clock with the newest number.
    clock: Option<f64>,
    behind: Run,
}

/// Packets behind the newest that follow each other in order.
#[derive(Debug, Clone, Default)]
struct Run {
    next: u32,
    length: u32,
}

impl Numbers {
    /// Frames since the stream's first, the newest's position.
    pub(crate) fn position(&self) -> i64 {
        self.unwrapped
    }

    /// Forgets the stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    fn begin(&mut self, number: u32, clock: Option<f64>) -> Order {
        *self = Self {
            newest: Some(number),
            recent: 1,
            clock,
            ..Self::default()
        };
        Order::First
    }

    /// Takes a packet's number and, where there is one, the sender's wall clock (seconds).
    pub(crate) fn take(&mut self, number: u32, clock: Option<f64>) -> Order {
        let Some(newest) = self.newest else {
            return self.begin(number, clock);
        };
        let ahead = i64::from(number.wrapping_sub(newest) as i32);
        if !(-FAR_BEHIND..=FAR_AHEAD).contains(&ahead) {
            return self.begin(number, clock);
        }
        if ahead > 0 {
            self.newest = Some(number);
            self.unwrapped += ahead;
            self.recent = if ahead < 128 { self.recent << ahead | 1 } else { 1 };
            self.clock = clock;
            self.behind.length = 0;
            return Order::Next {
                lost: ahead as u64 - 1,
            };
        }
        if ahead == 0 {
            return Order::Doubled;
        }
        // A lower number with a later clock: the sender counts anew.
        if let (Some(then), Some(now)) = (self.clock, clock)
            && now > then
        {
            return self.begin(number, clock);
        }
        let follows = self.behind.length > 0 && self.behind.next == number;
        self.behind = Run {
            next: number.wrapping_add(1),
            length: if follows { self.behind.length + 1 } else { 1 },
        };
        if self.behind.length >= RUN {
            return self.begin(number, clock);
        }
        let bit = -ahead;
        if bit < 128 && self.recent >> bit & 1 == 1 {
            return Order::Doubled;
        }
        if bit < 128 {
            self.recent |= 1 << bit;
        }
        Order::Late
    }
}

/// Follows the times of a source that numbers nothing, seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    newest: Option<f64>,
    /// Last time behind the newest, and how many rose one after the other.
    behind: f64,
    run: u32,
}

impl Times {
    /// Forgets the stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// True before the first time of a stream.
    pub(crate) fn is_new(&self) -> bool {
        self.newest.is_none()
    }

    /// Takes a packet's time.
    pub(crate) fn take(&mut self, time: f64) -> Order {
        let begin = |this: &mut Self| {
            *this = Self {
                newest: Some(time),
                ..Self::default()
            };
            Order::First
        };
        let Some(newest) = self.newest else {
            return begin(self);
        };
        if time > newest {
            self.newest = Some(time);
            self.run = 0;
            return Order::Next { lost: 0 };
        }
        if time == newest {
            return Order::Doubled;
        }
        if newest - time > LONG_AGO {
            return begin(self);
        }
        self.run = if self.run > 0 && time > self.behind {
            self.run + 1
        } else {
            1
        };
        self.behind = time;
        if self.run >= RUN {
            return begin(self);
        }
        Order::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Order = Order::Next { lost: 0 };

    #[test]
    fn numbers_in_order_lost_doubled_and_late() {
        let mut n = Numbers::default();
        assert_eq!(n.take(10, None), Order::First);
        assert_eq!(n.take(11, None), NEXT);
        assert_eq!(n.take(11, None), Order::Doubled);
        assert_eq!(n.take(14, None), Order::Next { lost: 2 });
        assert_eq!(n.take(12, None), Order::Late);
        assert_eq!(n.take(12, None), Order::Doubled);
        assert_eq!(n.take(13, None), Order::Late);
        assert_eq!(n.take(15, None), NEXT);
        assert_eq!(n.position(), 5);
    }

    #[test]
    fn numbers_wrap() {
        let mut n = Numbers::default();
        n.take(u32::MAX - 1, None);
        assert_eq!(n.take(u32::MAX, None), NEXT);
        assert_eq!(n.take(0, None), NEXT);
        assert_eq!(n.take(2, None), Order::Next { lost: 1 });
        assert_eq!(n.take(u32::MAX, None), Order::Doubled);
        assert_eq!(n.take(1, None), Order::Late);
        assert_eq!(n.position(), 4);
    }

    #[test]
    fn a_sender_that_starts_over_is_recognised() {
        // Far behind: at once.
        let mut n = Numbers::default();
        n.take(10_000, None);
        assert_eq!(n.take(0, None), Order::First);
        // Nearby with a wall clock: at once.
        let mut n = Numbers::default();
        n.take(100, Some(5.0));
        assert_eq!(n.take(1, Some(7.0)), Order::First);
        // Nearby without one: after half a second.
        let mut n = Numbers::default();
        (0..100).for_each(|i| {
            n.take(i, None);
        });
        let orders: Vec<Order> = (0..RUN).map(|i| n.take(i, None)).collect();
        assert!(orders[..RUN as usize - 1].iter().all(|o| *o == Order::Doubled));
        assert_eq!(orders[RUN as usize - 1], Order::First);
        assert_eq!(n.take(RUN, None), NEXT);
    }

    #[test]
    fn times_in_order_doubled_late_and_started_over() {
        let mut t = Times::default();
        assert_eq!(t.take(1.0), Order::First);
        assert_eq!(t.take(1.1), NEXT);
        assert_eq!(t.take(1.1), Order::Doubled);
        assert_eq!(t.take(1.05), Order::Late);
        assert_eq!(t.take(9.0), NEXT);
        assert_eq!(t.take(0.0), Order::First);
        t.take(1.0);
        let last = (0..RUN).map(|i| t.take(f64::from(i) * 0.02)).last();
        assert_eq!(last, Some(Order::First));
    }
}
