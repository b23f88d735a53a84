//! Devices that are processes of MPI against devices that are threads. `.ci/mpi` runs this under `mpirun`, in several modes:
//! without an argument everything that succeeds, otherwise one way to fail, of which the script sees the rest.

#![allow(clippy::unwrap_used, missing_docs)]

use brolga_runtime::abi::Status;
use brolga_runtime::devices::{
    Collective, Device, Devices, Exchange, Link, Message, Mpi, Operation, Part, Place, Reduction, Route, Span, supports,
};
use brolga_runtime::services::Failure;
use brolga_runtime::{ArrayShape, ElementType};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A link that the test keeps, too.
struct Shared(Arc<Mpi>);

impl Link for Shared {
    fn place(&self) -> Place {
        self.0.place()
    }
    unsafe fn begin(&self, exchange: Exchange) -> Result<u64, Failure> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.begin(exchange) }
    }
    fn end(&self, ticket: u64) -> Result<(), Failure> {
        self.0.end(ticket)
    }
    fn withdraw(&self, ticket: u64) {
        self.0.withdraw(ticket);
    }
    fn send(&self, route: Route, message: Message) -> Result<(), Failure> {
        self.0.send(route, message)
    }
    fn request(&self, route: Route) -> Result<u64, Failure> {
        self.0.request(route)
    }
    fn receive(&self, route: Route, number: u64) -> Result<Message, Failure> {
        self.0.receive(route, number)
    }
    fn fail(&self, why: &str) {
        self.0.fail(why);
    }
}

/// Numbers that are the same in all processes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// The lists of a device.
type Lists = fn(&Case, usize) -> Vec<Vec<u8>>;

struct Case {
    collective: Collective,
    /// By operand.
    operands: Vec<ArrayShape>,
    results: Vec<ArrayShape>,
    seed: u64,
    /// Bytes of operands that are not chosen by chance, by operand.
    lists: Option<Lists>,
}

impl Case {
    fn operand(&self, device: usize, k: usize) -> Vec<u8> {
        use ElementType::*;
        let shape = &self.operands[k];
        let mut random = Random(self.seed ^ ((device as u64) << 32) ^ ((k as u64) << 48));
        let exact = matches!(self.collective.reduction, Some(Reduction::Add | Reduction::Multiply));
        // Floats whose sums and products are exact, in whatever order.
        let mut small = || random.below(7) as f64 - 3.0;
        let n = shape.elements();
        match shape.ty {
            F32 if exact => (0..n).flat_map(|_| (small() as f32).to_ne_bytes()).collect(),
            F64 if exact => (0..n).flat_map(|_| small().to_ne_bytes()).collect(),
            C64 => (0..2 * n).flat_map(|_| (small() as f32).to_ne_bytes()).collect(),
            C128 => (0..2 * n).flat_map(|_| small().to_ne_bytes()).collect(),
            Pred => (0..n).map(|_| random.below(2) as u8).collect(),
            // All bits, NaN among them.
            _ => (0..shape.byte_size()).map(|_| random.next() as u8).collect(),
        }
    }

    fn run(&self, device: &Device) -> Result<Vec<Vec<u8>>, Failure> {
        let me = device.place().device;
        let mut operands: Vec<Vec<u8>> = (0..self.operands.len()).map(|k| self.operand(me, k)).collect();
        if let Some(lists) = self.lists {
            let lists = lists(self, me);
            let at = operands.len() - lists.len();
            operands.splice(at.., lists);
        }
        let mut results: Vec<Vec<u8>> = self.results.iter().map(|s| vec![0xAA; s.byte_size()]).collect();
        let operands: Vec<(&ArrayShape, &[u8])> =
            self.operands.iter().zip(&operands).map(|(s, b)| (s, b.as_slice())).collect();
        let mut spans: Vec<(&ArrayShape, &mut [u8])> =
            self.results.iter().zip(&mut results).map(|(s, b)| (s, b.as_mut_slice())).collect();
        device.exchange(&self.collective, &operands, &mut spans)?;
        Ok(results)
    }
}

fn collective(
    operation: Operation,
    reduction: Option<Reduction>,
    dimension: usize,
    groups: &[Vec<usize>],
) -> Collective {
    Collective { operation, reduction, dimension, channel: 0, line: 7, groups: groups.to_vec() }
}

/// Shapes of a case: `base` with a dimension that fits the operation.
fn case(
    operation: Operation,
    reduction: Option<Reduction>,
    types: &[ElementType],
    base: &[i64],
    dimension: usize,
    groups: &[Vec<usize>],
    seed: u64,
) -> Case {
    let members = groups[0].len() as i64;
    let with = |ty: ElementType, factor: i64| {
        let mut dims = base.to_vec();
        if let Some(dim) = dims.get_mut(dimension) {
            *dim *= factor;
        }
        ArrayShape::new(ty, dims)
    };
    let (from, to) = match operation {
        Operation::AllGather => (1, members),
        Operation::ReduceScatter => (members, 1),
        Operation::AllToAll => (members, members),
        _ => (1, 1),
    };
    let copies = if operation == Operation::AllToAllTuple { members as usize } else { 1 };
    let shapes = |factor: i64| types.iter().flat_map(|&t| std::iter::repeat_n(with(t, factor), copies)).collect();
    let collective = collective(operation, reduction, dimension, groups);
    Case { collective, operands: shapes(from), results: shapes(to), seed, lists: None }
}

/// Offsets and sizes of rows that lie inside 16 rows.
fn rows(case: &Case, device: usize) -> Vec<Vec<u8>> {
    let shape = &case.operands[2];
    let mut random = Random(case.seed ^ device as u64);
    let mut lists = [const { Vec::new() }; 4];
    for _ in 0..shape.elements() {
        let n = random.below(4);
        let numbers = [random.below(16 - n), n, random.below(16 - n), n];
        for (list, number) in lists.iter_mut().zip(numbers) {
            match shape.ty {
                ElementType::S32 => list.extend((number as i32).to_ne_bytes()),
                _ => list.extend((number as i64).to_ne_bytes()),
            }
        }
    }
    lists.to_vec()
}

fn cases(n: usize) -> Vec<Case> {
    use ElementType::*;
    let types: Vec<ElementType> = ElementType::ALL.iter().copied().filter(|&t| supports(Reduction::Add, t)).collect();
    let mut groupings = vec![vec![(0..n).collect::<Vec<_>>()], vec![(0..n).rev().collect()]];
    if n == 4 {
        groupings.extend([vec![vec![0, 2], vec![3, 1]], vec![vec![0], vec![1], vec![2], vec![3]]]);
    }
    let mut out = Vec::new();
    let mut seed = 1;
    let mut next = || {
        seed += 1;
        seed
    };
    for groups in &groupings {
        for &ty in &types {
            for reduction in Reduction::ALL.iter().copied().filter(|&r| supports(r, ty)) {
                for operation in [Operation::AllReduce, Operation::ReduceScatter] {
                    for dimension in 0..3 {
                        out.push(case(operation, Some(reduction), &[ty], &[2, 3, 5], dimension, groups, next()));
                    }
                }
            }
        }
        for operation in Operation::ALL.iter().copied().filter(|o| !o.reduces() && *o != Operation::RaggedAllToAll) {
            for (&ty, dimension) in types.iter().flat_map(|t| (0..3).map(move |d| (t, d))) {
                out.push(case(operation, None, &[ty], &[2, 3, 5], dimension, groups, next()));
            }
        }
        let reduced = |types: &[ElementType], dims: &[i64], d: usize, seed: u64, operation: Operation| {
            case(operation, Some(Reduction::Maximum), types, dims, d, groups, seed)
        };
        for operation in [Operation::AllReduce, Operation::ReduceScatter] {
            // Several arrays at once, arrays without elements or with one, and more than MPI sends in one go.
            out.push(reduced(&[S32, BF16, F32, Pred], &[4, 3], 1, next(), operation));
            out.push(reduced(&[S32, F16], &[0, 3], 1, next(), operation));
            out.push(reduced(&[S8, F16], &[1], 0, next(), operation));
            out.push(reduced(&[S32, F32], &[3, 50_001], 1, next(), operation));
            out.push(reduced(&[S32, F32], &[150_003], 0, next(), operation));
        }
        for operation in [Operation::AllGather, Operation::AllToAll, Operation::CollectiveBroadcast] {
            for dims in [&[0, 3][..], &[3, 50_001], &[150_003, 1]] {
                for d in 0..2 {
                    out.push(case(operation, None, &[U16, F64], dims, d, groups, next()));
                }
            }
        }
        out.push(case(Operation::AllToAllTuple, None, &[F32], &[150_003], 0, groups, next()));
        for offsets in [S32, S64] {
            let members = groups[0].len() as i64;
            let list = ArrayShape::new(offsets, [2 * members]);
            let array = ArrayShape::new(F32, [16, 3]);
            out.push(Case {
                collective: collective(Operation::RaggedAllToAll, None, 0, groups),
                operands: [vec![array.clone(); 2], vec![list; 4]].concat(),
                results: vec![array],
                seed: next(),
                lists: Some(rows),
            });
        }
    }
    // A device that a broadcast leaves out; pairs of all kinds.
    out.push(case(Operation::CollectiveBroadcast, None, &[S32], &[5], 0, &[vec![1, 0]], next()));
    let ring: Vec<Vec<usize>> = (0..n).map(|d| vec![d, (d + 1) % n]).collect();
    for pairs in [ring, vec![vec![0, 1]], vec![vec![1, 1], vec![0, n - 1]], vec![vec![0, 1], vec![1, 0]]] {
        for types in [&[S32][..], &[C128, Pred]] {
            out.push(case(Operation::CollectivePermute, None, types, &[7], 0, &pairs, next()));
        }
        out.push(case(Operation::CollectivePermute, None, &[F32], &[300_000], 0, &pairs, next()));
    }
    out
}

fn everything(link: &Arc<Mpi>, n: usize) {
    let device = Device::new(Shared(link.clone()));
    let me = device.place().device;
    let start = Instant::now();
    let cases = cases(n);
    for case in &cases {
        let what = format!("{} {:?} of {:?}", case.collective, case.collective, case.operands);
        let found = case.run(&device).unwrap_or_else(|e| panic!("{what}: {}", e.message));
        let expected = Devices::local(n, 1).unwrap().run_each(|device| case.run(device)).unwrap();
        assert!(found == expected[me], "device {me}: {what}");
    }
    println!("device {me} of {n}: {} collectives as among threads, {:?}", cases.len(), start.elapsed());
    sums_of_any_floats(&device, n);
    begun_and_ended(link, n);
    sent_and_received(&device, n);
    // How long a small and a large one take.
    for (bytes, times) in [(4, 200), (4 << 20, 10)] {
        let shape = ArrayShape::new(ElementType::S32, [bytes / 4]);
        let start = Instant::now();
        for _ in 0..times {
            elements(&device, &shape).unwrap();
        }
        if me == 0 {
            println!("all-reduce of {bytes} bytes among {n}: {:?}", start.elapsed() / times);
        }
    }
}

/// Where the order of additions is MPI's, all members still get the same, and next to what threads get.
fn sums_of_any_floats(device: &Device, n: usize) {
    let shape = ArrayShape::new(ElementType::F64, [1000]);
    let sum = collective(Operation::AllReduce, Some(Reduction::Add), 0, &[(0..n).collect()]);
    let body = |device: &Device| {
        let mut random = Random(device.place().device as u64);
        let own: Vec<u8> = (0..1000).flat_map(|_| (random.next() as f64 / 1e19).to_ne_bytes()).collect();
        let mut result = vec![0; 8000];
        device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut result)])?;
        Ok::<_, Failure>(result)
    };
    let found = body(device).unwrap();
    let expected = Devices::local(n, 1).unwrap().run_each(body).unwrap();
    let numbers = |b: &[u8]| b.as_chunks::<8>().0.iter().map(|x| f64::from_ne_bytes(*x)).collect::<Vec<_>>();
    for (a, b) in numbers(&found).into_iter().zip(numbers(&expected[0])) {
        assert!((a - b).abs() <= 1e-14 * b.abs(), "{a} {b}");
    }
    let (own, all) =
        (ArrayShape::new(ElementType::F64, [1, 1000]), ArrayShape::new(ElementType::F64, [n as i64, 1000]));
    let gather = collective(Operation::AllGather, None, 0, &[(0..n).collect()]);
    let mut everyones = vec![0; all.byte_size()];
    device.exchange(&gather, &[(&own, &found)], &mut [(&all, &mut everyones)]).unwrap();
    assert!(everyones.chunks(8000).all(|c| c == found), "all members have the same sum");
}

/// # Safety
/// As [`Link::begin`].
unsafe fn begin(link: &Mpi, collective: &Collective, shape: &ArrayShape, own: &[u8], result: &mut [u8]) -> u64 {
    let place = link.place();
    let (group, me) = collective.group_of(place.device, place.devices()).unwrap();
    let part = Part {
        operands: vec![Span::new(own.as_ptr().cast_mut(), own.len())],
        results: vec![Span::new(result.as_mut_ptr(), result.len())],
    };
    let (operands, results) = (vec![shape.clone()], vec![shape.clone()]);
    let exchange = Exchange { collective: collective.clone(), group, me, operands, results, program: [1; 16], part };
    // SAFETY: the caller's promise is the same.
    unsafe { link.begin(exchange) }.unwrap()
}

/// Exchanges of several groups and of different rounds are under way at the same time, and end in any order.
fn begun_and_ended(link: &Arc<Mpi>, n: usize) {
    let me = link.place().device;
    let all: Vec<usize> = (0..n).collect();
    let reversed: Vec<usize> = all.iter().rev().copied().collect();
    let shape = ArrayShape::new(ElementType::F32, [20_000]);
    let own: Vec<u8> = (0..20_000).flat_map(|i| ((i % 100) as f32 + me as f32).to_ne_bytes()).collect();
    let kinds = [
        (Reduction::Maximum, &all),
        (Reduction::Add, &all),
        (Reduction::Minimum, &reversed),
        (Reduction::Maximum, &all),
        (Reduction::Add, &reversed),
    ];
    let mut results = vec![vec![0; own.len()]; kinds.len()];
    let tickets: Vec<u64> = kinds
        .iter()
        .zip(&mut results)
        .map(|(&(reduction, group), result)| {
            let sum = collective(Operation::AllReduce, Some(reduction), 0, std::slice::from_ref(group));
            // SAFETY: all end below.
            unsafe { begin(link, &sum, &shape, &own, result) }
        })
        .collect();
    for i in 0..tickets.len() {
        // Not everybody ends them in the same order.
        link.end(tickets[(i * 2 + me) % tickets.len()]).unwrap();
    }
    for ((reduction, _), result) in kinds.iter().zip(&results) {
        for (i, x) in result.as_chunks::<4>().0.iter().map(|x| f32::from_ne_bytes(*x)).enumerate() {
            let (first, last) = ((i % 100) as f32, (i % 100 + n - 1) as f32);
            let sum = first * n as f32 + (n * (n - 1) / 2) as f32;
            let expected = match reduction {
                Reduction::Add => sum,
                Reduction::Maximum => last,
                _ => first,
            };
            assert_eq!(x, expected, "{reduction:?} {i}");
        }
    }
}

fn sent_and_received(device: &Device, n: usize) {
    let me = device.place().device;
    let message = |i: usize, length: usize| Message {
        shapes: vec![ArrayShape::new(ElementType::U8, [length as i64]), ArrayShape::new(ElementType::S32, [])],
        bytes: [vec![i as u8; length], (i as i32).to_ne_bytes().to_vec()].concat(),
    };
    // To the next, to itself where there is no other; short and long ones, asked for in another order.
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    for (i, length) in [3, 3_000_000, 0, 5].into_iter().enumerate() {
        device.send(Route::Pair(3, me, to), message(i, length)).unwrap();
        device.send(Route::Pair(4, me, me), message(i, length)).unwrap();
    }
    for (channel, from) in [(3, from), (4, me)] {
        let route = Route::Pair(channel, from, me);
        let requests: Vec<u64> = (0..4).map(|_| device.request(route).unwrap()).collect();
        for (i, length) in [(2, 0), (0, 3), (3, 5), (1, 3_000_000)] {
            assert_eq!(device.receive(route, requests[i]).unwrap(), message(i, length));
        }
    }
    // A channel that says nothing of devices: sent before anybody asks, and after.
    let route = Route::Channel(9);
    for i in 0..3 {
        if me == 0 {
            device.send(route, message(i, 10)).unwrap();
        } else if me == n - 1 {
            let number = device.request(route).unwrap();
            assert_eq!(device.receive(route, number).unwrap(), message(i, 10));
        }
    }
}

fn elements(device: &Device, shape: &ArrayShape) -> Result<(), Failure> {
    let n = device.place().devices();
    let sum = collective(Operation::AllReduce, Some(Reduction::Add), 0, &[(0..n).collect()]);
    let own = vec![1; shape.byte_size()];
    let mut result = own.clone();
    device.exchange(&sum, &[(shape, &own)], &mut [(shape, &mut result)])
}

/// Says what was seen and ends, once everybody has had time to see it.
fn seen(me: usize, what: &str) -> ! {
    println!("seen by device {me}: {what}");
    std::thread::sleep(Duration::from_millis(1500));
    std::process::exit(3)
}

fn main() {
    let size = std::env::var("OMPI_COMM_WORLD_SIZE").ok().and_then(|n| n.parse::<usize>().ok());
    let Some(n) = size else {
        println!("\nSKIPPED: devices of MPI are tested under mpirun alone; run .ci/mpi\n");
        return;
    };
    let mode = std::env::args().nth(1).unwrap_or_default();
    let limit = Duration::from_millis(if mode.is_empty() { 60_000 } else { 1000 });
    if mode == "wrong" {
        let error = Mpi::connect(n + 1, 1, None).unwrap_err().to_string();
        assert!(error.contains(&format!("found {n}")), "{error}");
        return;
    }
    let link = Arc::new(Mpi::link(n, 1, Some(limit)).unwrap());
    assert!(Mpi::connect(n, 1, None).is_err(), "once for each process");
    let device = Device::new(Shared(link.clone()));
    let (me, odd) = (device.place().device, device.place().device == n - 1);
    let shape = |n: i64| ArrayShape::new(ElementType::S32, [n]);
    match mode.as_str() {
        "" => {
            everything(&link, n);
            println!("device {me} of {n}: done");
        }
        // One brings another shape.
        "mismatch" => {
            let error = elements(&device, &shape(if odd { 3 } else { 2 })).unwrap_err().message;
            assert!(error.contains("s32[2]") && error.contains("s32[3]") && error.contains("line 7"), "{error}");
            assert!(elements(&device, &shape(2)).is_err(), "and nothing works after it");
            seen(me, &error);
        }
        // One comes too late.
        "late" => {
            if odd {
                std::thread::sleep(3 * limit);
                seen(me, "late");
            }
            let start = Instant::now();
            let error = elements(&device, &shape(2)).unwrap_err();
            assert!(start.elapsed() < 2 * limit, "{:?}", start.elapsed());
            // Who is not the first to give up hears of the other.
            let own = error.code == Status::TimedOut.code();
            assert!(error.message.contains("nobody came within 1s"), "{own} {}", error.message);
            println!("seen by device {me}: {}", error.message);
            std::thread::sleep(4 * limit);
            std::process::exit(3);
        }
        // One fails by itself.
        "fails" => {
            if odd {
                device.fail("no luck");
                seen(me, "it failed");
            }
            let error = elements(&device, &shape(2)).unwrap_err().message;
            assert!(error.contains(&format!("device {} failed: no luck", n - 1)), "{error}");
            seen(me, &error);
        }
        // One ends as if all were well.
        "ends" => {
            elements(&device, &shape(2)).unwrap();
            if odd {
                println!("seen by device {me}: end");
                return;
            }
            let error = elements(&device, &shape(2)).unwrap_err().message;
            assert!(
                error.contains(&format!("device {} ended before it came to all-reduce at line 7", n - 1)),
                "{error}"
            );
            seen(me, &error);
        }
        // One stops while MPI has its buffers: there is no way on for anybody.
        "stops" => {
            // What it shows the others leaves when it begins; the second round needs it to have moved on from the first.
            let large = ArrayShape::new(ElementType::BF16, [1 << 24]);
            let own = vec![1; large.byte_size()];
            let mut result = vec![0; own.len()];
            let most = collective(Operation::AllReduce, Some(Reduction::Maximum), 0, &[(0..n).collect()]);
            // SAFETY: the process ends before the buffers do.
            let ticket = unsafe { begin(&link, &most, &large, &own, &mut result) };
            if odd {
                std::thread::sleep(Duration::from_secs(30));
            }
            println!("not aborted: {:?}", link.end(ticket));
        }
        // One is killed at some collective.
        "killed" => {
            let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let last = 1 + u64::from(time.subsec_nanos()) % 300;
            let cases = cases(n);
            for i in 0.. {
                // Every kind comes soon.
                let case = &cases[i * 7919 % cases.len()];
                if odd && i as u64 == last {
                    println!("killed at {i}: {}", case.collective);
                    let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
                }
                if let Err(error) = case.run(&device) {
                    seen(me, &error.message);
                }
            }
        }
        other => panic!("no such mode: {other}"),
    }
}
