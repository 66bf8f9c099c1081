//! The calls, one for each part of the API.

use super::core::{OnTick, increment};
use super::{CALL, DROPPED, File, TAG, TestDriver};
use crate::protocol;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::counters::CounterReservation;
use kernel::ioctl::Call;
use kernel::irp::Buffer;
use kernel::per_cpu::{PerCore, PerCpu};
use kernel::pool::{PoolBox, PoolVec};
use kernel::processor::{CoreId, CurrentCore};
use kernel::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_PENDING};
use kernel::sync::{SpinLock, Waited};
use kernel::{Result, time};
use pmu::backend::x86::{Msr, X86Registers};
use trace::cold;

type Run = fn(&TestDriver, &File, &mut Buffer<'_>) -> Result<()>;

const fn call(code: u32, input_bytes: usize, output_bytes: usize, run: Run) -> Call<TestDriver> {
    Call {
        code,
        input_bytes,
        output_bytes,
        run,
    }
}

/// All of them.
pub(super) const TABLE: [Call<TestDriver>; 20] = [
    call(protocol::SPIN_LOCK, 4, 8, spin_lock),
    call(protocol::TICKS, 8, 4, ticks),
    call(protocol::TICK_COUNT, 4, 4, tick_count),
    call(protocol::WORK, 4, 8, work),
    call(protocol::WORK_FROM_DPC, 4, 4, work_from_dpc),
    call(protocol::WORK_AT_UNLOAD, 0, 0, work_at_unload),
    call(protocol::POOL, 4, 8, pool),
    call(protocol::PER_CPU, 0, 0, per_cpu),
    call(protocol::EVENT_TIMEOUT, 4, 12, event_timeout),
    call(protocol::MSR, 0, 24, msr),
    call(protocol::COUNTERS, 4, 24, counters),
    call(protocol::PANIC, 0, 0, panic),
    call(protocol::FORGET_WORK, 0, 0, forget_work),
    call(protocol::FORGET_TICKS, 0, 0, forget_ticks),
    call(protocol::FILES, 0, 12, files),
    call(protocol::WRONG_ERROR, 0, 0, |_, _, _| Err(STATUS_PENDING)),
    call(protocol::TICK_RACE, 4, 8, tick_race),
    call(protocol::LONG_WORK, 4, 0, long_work),
    call(protocol::DROP_TICKING, 4, 0, drop_ticking),
    call(protocol::RECORD, 0, 0, super::tracing::record),
];

/// Most rounds of a call.
const MAX_ROUNDS: u32 = 10_000;

/// The n-th u32 of the input.
fn number(buffer: &Buffer<'_>, n: usize) -> Result<u32> {
    let (numbers, _) = buffer.input().as_chunks();
    let number = numbers.get(n).ok_or(STATUS_INVALID_PARAMETER)?;
    Ok(u32::from_le_bytes(*number))
}

/// The n-th u32 of the input, as a number of things to wait for: whoever asks must not wait for ever.
fn rounds(buffer: &Buffer<'_>, n: usize) -> Result<u32> {
    number(buffer, n).and_then(|rounds| match rounds {
        0..=MAX_ROUNDS => Ok(rounds),
        _ => Err(STATUS_INVALID_PARAMETER),
    })
}

fn spin_lock(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let rounds = rounds(buffer, 0)?;
    let _turn = driver.turn.lock();
    *driver.sum.lock() = 0;
    let all = driver.cores.iter().map(|(id, _)| id);
    for (id, core) in driver.cores.iter() {
        core.begin(OnTick::Nothing);
        driver.cores.start_ticks(id, 1);
    }
    for _ in 0..rounds {
        driver.cores.run_on(all.clone(), &|_, _| {
            increment(&mut *driver.sum.lock());
        });
        increment(&mut *driver.sum.lock());
    }
    for id in all {
        driver.cores.stop_ticks_and_wait(id);
    }
    let sum = *driver.sum.lock();
    buffer.push(&sum.to_le_bytes())
}

fn ticks(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let (id, n) = (CoreId(number(buffer, 0)?), rounds(buffer, 1)?);
    let core = driver.cores.get(id).ok_or(STATUS_INVALID_PARAMETER)?;
    let _turn = driver.turn.lock();
    core.begin(OnTick::SetEventAt(n));
    driver.cores.start_ticks(id, 1);
    core.reached.wait();
    driver.cores.stop_ticks_and_wait(id);
    buffer.push(&core.tick_count().to_le_bytes())
}

/// The wait and the first tick are due at the same time.
fn tick_race(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let id = CoreId(number(buffer, 0)?);
    let core = driver.cores.get(id).ok_or(STATUS_INVALID_PARAMETER)?;
    let _turn = driver.turn.lock();
    core.begin(OnTick::Nothing);
    driver.cores.start_ticks(id, 1);
    driver.never_set.wait_for(1);
    driver.cores.stop_ticks_and_wait(id);
    let stopped_at = core.tick_count();
    driver.never_set.wait_for(5);
    [stopped_at, core.tick_count()]
        .iter()
        .try_for_each(|count| buffer.push(&count.to_le_bytes()))
}

/// As [`tick_race`], without stopping.
fn drop_ticking(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let id = CoreId(number(buffer, 0)?);
    let cores = PerCpu::try_new(TAG, |_| Ok(Seen(AtomicU32::new(0))))?;
    cores.start_ticks(id, 1);
    driver.never_set.wait_for(1);
    drop(cores);
    Ok(())
}

fn tick_count(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let id = CoreId(number(buffer, 0)?);
    let core = driver.cores.get(id).ok_or(STATUS_INVALID_PARAMETER)?;
    buffer.push(&core.tick_count().to_le_bytes())
}

fn work(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let rounds = rounds(buffer, 0)?;
    let _turn = driver.turn.lock();
    let work = driver.work.work();
    let before = work.runs();
    for _ in 0..rounds {
        driver.work.queue();
        work.done.wait();
    }
    let runs = work.runs().wrapping_sub(before);
    cold!(Information, CALL, "worked", runs: u32 = runs);
    buffer.push(&runs.to_le_bytes())?;
    buffer.push(&work.process().to_le_bytes())
}

fn work_from_dpc(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let id = CoreId(number(buffer, 0)?);
    let core = driver.cores.get(id).ok_or(STATUS_INVALID_PARAMETER)?;
    let _turn = driver.turn.lock();
    let before = core.work.work().runs();
    core.begin(OnTick::QueueWork);
    driver.cores.start_ticks(id, 1);
    core.work.work().done.wait();
    driver.cores.stop_ticks_and_wait(id);
    let runs = core.work.work().runs().wrapping_sub(before);
    buffer.push(&runs.to_le_bytes())
}

fn work_at_unload(driver: &TestDriver, _: &File, _: &mut Buffer<'_>) -> Result<()> {
    driver.queues_at_unload.store(true, Ordering::Relaxed);
    Ok(())
}

fn long_work(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    driver.work.work().take(number(buffer, 0)?);
    driver.work.queue();
    Ok(())
}

fn pool(_: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let n = number(buffer, 0)?;
    let squares = PoolBox::try_from_fn(TAG, n as usize, |index| {
        let index = index as u64;
        PoolBox::try_new(TAG, index * index)
    })?;
    let mut vector = PoolVec::try_with_capacity(TAG, 0)?;
    for square in squares.iter() {
        vector.try_push(PoolBox::try_new(TAG, **square)?)?;
    }
    let mut sum = 0u64;
    while let Some(square) = vector.pop() {
        sum += *square;
    }
    buffer.push(&sum.to_le_bytes())
}

fn per_cpu(_: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let cores = PerCpu::try_new(TAG, |_| Ok(Seen(AtomicU32::new(u32::MAX))))?;
    buffer.check_room(cores.count() * size_of::<u32>())?;
    let all = cores.iter().map(|(id, _)| id);
    cores.run_on(all, &|here, Seen(by)| {
        by.store(here.id().0, Ordering::Release)
    });
    cores
        .iter()
        .try_for_each(|(_, Seen(by))| buffer.push(&by.load(Ordering::Acquire).to_le_bytes()))
}

/// The processor that ran here, and nothing at a tick.
struct Seen(AtomicU32);

impl PerCore for Seen {
    fn tick(&self, _: &CurrentCore) {}
}

fn event_timeout(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let timeout_ms = number(buffer, 0)?;
    let begin_ns = time::monotonic_ns();
    let waited = driver.never_set.wait_for(timeout_ms);
    let took_ns = time::monotonic_ns().wrapping_sub(begin_ns);
    buffer.push(&took_ns.to_le_bytes())?;
    buffer.push(&u32::from(waited == Waited::TimedOut).to_le_bytes())
}

fn msr(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    const VALUE: u64 = 0x1234;
    let _turn = driver.turn.lock();
    let reservation = CounterReservation::reserve(1).ok_or(STATUS_NOT_SUPPORTED)?;
    let answer = SpinLock::new(None);
    driver.cores.run_on([CoreId(0)].into_iter(), &|here, _| {
        let processor = here.detect();
        let (Some(model), Some(mut registers)) = (processor.model(), here.registers(&processor))
        else {
            return;
        };
        registers.write(Msr::Counter(0), VALUE);
        let written = registers.read(Msr::Counter(0));
        registers.write(Msr::Counter(0), 0);
        let absent = registers.read(Msr::Counter(u8::MAX));
        *answer.lock() = Some([u64::from(model.general_counters()), written, absent]);
    });
    drop(reservation);
    let numbers = answer.lock().take().ok_or(STATUS_NOT_SUPPORTED)?;
    numbers
        .iter()
        .try_for_each(|number| buffer.push(&number.to_le_bytes()))
}

fn counters(_: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    let count = u8::try_from(number(buffer, 0)?).map_err(|_| STATUS_INVALID_PARAMETER)?;
    let reserve = || CounterReservation::reserve(count).ok_or(STATUS_NOT_SUPPORTED);
    let first = reserve()?;
    let beside = reserve()?;
    let both = [first.counters(), beside.counters()];
    drop((first, beside));
    let after = reserve()?;
    both.iter()
        .chain([&after.counters()])
        .try_for_each(|counters| buffer.push(&counters.to_le_bytes()))
}

#[expect(clippy::panic, reason = "what a panic does is tested")]
fn panic(driver: &TestDriver, _: &File, _: &mut Buffer<'_>) -> Result<()> {
    let opened = driver.opened.load(Ordering::Relaxed);
    cold!(Error, CALL, "about to panic", opened: u32 = opened);
    panic!("asked to panic")
}

fn forget_work(driver: &TestDriver, _: &File, _: &mut Buffer<'_>) -> Result<()> {
    let item = driver.to_forget.lock().take();
    core::mem::forget(item);
    Ok(())
}

fn forget_ticks(_: &TestDriver, _: &File, _: &mut Buffer<'_>) -> Result<()> {
    let cores = PerCpu::try_new(TAG, |_| Ok(Seen(AtomicU32::new(0))))?;
    cores.start_ticks(CoreId(0), 1);
    core::mem::forget(cores);
    Ok(())
}

fn files(driver: &TestDriver, _: &File, buffer: &mut Buffer<'_>) -> Result<()> {
    [&driver.opened, &driver.cleaned_up, &DROPPED]
        .iter()
        .try_for_each(|count| buffer.push(&count.load(Ordering::Relaxed).to_le_bytes()))
}
