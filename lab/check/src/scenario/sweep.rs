//! Lets one thing happen before each instruction of a request that can tell the difference.

mod points;

use std::cell::RefCell;
use std::rc::Rc;

use lab_ntos::{Action, Client, Event, FileId, Machine, Request, Steps, Stopped};
use rand::Rng;
use rand_xorshift::XorShiftRng;

use super::session::PAUSE_NS;
use super::{Plan, Scenario, one_of, random};
use crate::bench::{Bench, Halt, Outcome, Window};
use crate::case::{Call, Case, Interruption};
use crate::found;
use crate::interface::ADMINISTRATOR;

/// Another process of the administrator's, whose request comes second.
const SECOND: Client = Client {
    process: 1004,
    ..ADMINISTRATOR
};

pub(super) struct Sweep;

impl Scenario for Sweep {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn about(&self) -> &'static str {
        "interrupts requests, or runs others, before single instructions"
    }

    fn plan(&self, plan: &Plan<'_>) -> Vec<Case> {
        if plan.interface.paths.is_empty() {
            return Vec::new();
        }
        // One that counts: nothing happens. The second request is the same one, or the next.
        let calls = &plan.safe_calls;
        let seconds = |index: usize| [index, (index + 1) % calls.len()];
        let pairs = calls.iter().enumerate().flat_map(|(index, first)| {
            let mut seconds = seconds(index).to_vec();
            seconds.truncate(plan.effort.pick(1, 2));
            seconds.dedup();
            seconds
                .into_iter()
                .map(move |second| vec![*first, calls[second]])
        });
        pairs
            .map(|calls| Case {
                calls,
                seed: plan.seed,
                ..Case::of(self.name())
            })
            .collect()
    }

    fn follow(&self, case: &Case, outcome: &Outcome, plan: &Plan<'_>) -> Vec<Case> {
        let Some(window) = &outcome.window else {
            return Vec::new();
        };
        let pairs = plan.safe_calls.len().max(1) * plan.effort.pick(1, 2);
        let all = plan.effort.pick(300, 4000) / pairs;
        let events = events(case, window);
        let most = (all / events.len().max(1)).clamp(plan.effort.pick(2, 8), 400);
        let chosen = spread(&window.points, most, case.seed);
        // Every event at a point before the next point: whatever there is time for, all were tried.
        let cases = chosen.flat_map(|point| {
            events.iter().map(move |event| Case {
                point: Some(point),
                event: Some(*event),
                cpus: if *event == Interruption::Threads {
                    1
                } else {
                    2
                },
                ..case.clone()
            })
        });
        cases.collect()
    }

    fn draw(&self, plan: &Plan<'_>, random: &mut XorShiftRng) -> Option<Case> {
        const EVENTS: [Interruption; 6] = [
            Interruption::Processors,
            Interruption::Threads,
            Interruption::Cancel,
            Interruption::Dpcs,
            Interruption::Timer,
            Interruption::Profile,
        ];
        let calls = &plan.safe_calls;
        let event = *one_of(&EVENTS, random)?;
        Some(Case {
            calls: vec![*one_of(calls, random)?, *one_of(calls, random)?],
            point: Some(u64::from(random.next_u32() % 1000)),
            event: Some(event),
            cpus: if event == Interruption::Threads { 1 } else { 2 },
            seed: random.next_u64() | 1,
            ..Case::of(self.name())
        })
    }

    fn lacks(&self, case: &Case) -> Option<&'static str> {
        (case.calls.len() != 2).then_some("not two requests")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), Halt> {
        let &[first, second] = bench.case.calls.as_slice() else {
            return Ok(());
        };
        if !bench.load()? {
            return Ok(());
        }
        let files = (bench.open_any()?, bench.open_by(SECOND)?);
        if let (Some(file), other) = files {
            let steps = stepped(bench, [file, other.unwrap_or(file)], [&first, &second]);
            let steps = steps.map_err(|halt| without_artefact(bench, halt))?;
            bench.step();
            if bench.case.event.is_none() {
                let window = window(bench, &steps);
                if window.cut {
                    bench.warn(vec![format!(
                        "request {:#x} runs through more than {} instructions: the sweep looks at those only",
                        first.code,
                        lab_ntos::MOST_COUNTED
                    )]);
                }
                bench.outcome.window = Some(window);
            }
            bench.machine.sleep_ns(PAUSE_NS)?;
        }
        bench.unload()
    }
}

/// A context that is held while others run holds whatever lock it has for as long as they do. One that spins on it
/// by itself, without a kernel call that would let the holder go on, spins for ever, here only.
fn without_artefact(bench: &mut Bench<'_>, halt: Halt) -> Halt {
    let is_held = !matches!(
        bench.case.event,
        None | Some(Interruption::Dpcs | Interruption::Profile | Interruption::Interrupt(_))
    );
    match halt {
        Halt::Stopped(Stopped(finding)) if is_held && found::is_too_long(finding.rule) => {
            bench.warn(vec![format!(
                "the driver waits in a loop of its own for other code of it ({}): the sweep can't look behind that",
                finding.at
            )]);
            Halt::Enough
        }
        halt => halt,
    }
}

/// What can happen in a window; a second request of another kind is tried on another processor only.
fn events(case: &Case, window: &Window) -> Vec<Interruption> {
    let [first, second] = case.calls.as_slice() else {
        return Vec::new();
    };
    if first == second {
        window.events.clone()
    } else {
        vec![Interruption::Processors]
    }
}

/// At most so many of the points, evenly spread; which ones is the seed's affair.
fn spread(points: &[u64], most: usize, seed: u64) -> impl Iterator<Item = u64> {
    let step = points.len().div_ceil(most.max(1)).max(1);
    let offset = usize::try_from(seed % step as u64).unwrap_or(0);
    points.iter().copied().skip(offset).step_by(step)
}

/// What there is to sweep over in a window that was counted.
fn window(bench: &Bench<'_>, steps: &Steps) -> Window {
    let machine = bench.machine;
    let sources = machine.interrupt_sources();
    let mut events = vec![
        Interruption::Processors,
        Interruption::Threads,
        Interruption::Cancel,
        Interruption::Dpcs,
        Interruption::Timer,
    ];
    events.extend(sources.profile.then_some(Interruption::Profile));
    events.extend(sources.vectors.into_iter().map(Interruption::Interrupt));
    let points = bench
        .driver()
        .map(|driver| points::telling(bench.image(), driver.base(), &steps.path));
    Window {
        points: points.unwrap_or_default(),
        events,
        cut: steps.instructions >= lab_ntos::MOST_COUNTED,
    }
}

/// A request, once it is begun, for the event that comes in the midst of it.
type Begun = Rc<RefCell<Option<Request>>>;

/// Steps through the first request; the event begins the second, or cancels the first.
fn stepped(
    bench: &mut Bench<'_>,
    [file, other]: [FileId; 2],
    [first, second]: [&Call; 2],
) -> Result<Steps, Halt> {
    let mut random = random(bench.case);
    let machine = bench.machine;
    let (under_way, joined) = (Begun::default(), Begun::default());
    let action: Option<Action> = match bench.case.event {
        Some(Interruption::Cancel) => Some(cancels(&under_way)),
        Some(Interruption::Processors | Interruption::Threads) => {
            let input = second.bytes(&mut random);
            Some(begins(&joined, other, *second, input))
        }
        _ => None,
    };
    let plan = lab_ntos::Plan {
        action,
        event: event(bench.case.event),
        point: bench.case.event.and(bench.case.point),
    };
    let (run, steps) = machine.stepping(plan, || -> Result<(), Stopped> {
        let begun = bench.queue(file, first, &mut random)?;
        *under_way.borrow_mut() = begun.ok();
        machine.poll().map(drop)
    });
    run?;
    for (request, call) in [(under_way.take(), first), (joined.take(), second)] {
        if let Some(request) = request {
            bench.settle(request, call)?;
        }
    }
    Ok(steps)
}

fn cancels(request: &Begun) -> Action {
    let request = Rc::clone(request);
    Rc::new(move |machine: &Machine| {
        if let Some(request) = &*request.borrow()
            && !machine.is_complete(request)
        {
            // Refused only by a machine that has stopped, and then nobody asks.
            let _ = machine.begin_cancel(request);
        }
    })
}

fn begins(joined: &Begun, file: FileId, call: Call, input: Vec<u8>) -> Action {
    let joined = Rc::clone(joined);
    Rc::new(move |machine: &Machine| {
        let begun = machine.begin_ioctl(file, call.code, &input, call.output as usize);
        *joined.borrow_mut() = begun.ok().and_then(Result::ok);
    })
}

fn event(interruption: Option<Interruption>) -> Event {
    match interruption {
        None | Some(Interruption::Processors | Interruption::Cancel) => Event::Processors,
        Some(Interruption::Threads) => Event::Threads,
        Some(Interruption::Dpcs) => Event::Dpcs,
        Some(Interruption::Timer) => Event::Timer,
        Some(Interruption::Profile) => Event::Profile,
        Some(Interruption::Interrupt(vector)) => Event::Interrupt(vector),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_spread_and_the_seed_moves_them() {
        let points: Vec<u64> = (0..100).collect();
        assert_eq!(spread(&points, 200, 7).count(), 100);
        let few: Vec<u64> = spread(&points, 10, 3).collect();
        assert_eq!((few.len(), few[0], few[9]), (10, 3, 93));
        assert_eq!(spread(&[], 10, 3).count(), 0);
    }
}
