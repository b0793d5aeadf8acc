//! The loop with the toy engine and real sockets.

use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use kickcache_engine::device::Device;

use super::*;
use crate::driver::device::{Access, BlockFile, Emptiness};
use crate::driver::executor::{DriverSettings, IoEngine, Medium};
use crate::serve::config::{NbdAddress, TcpPolicy};
use crate::serve::toy::ToyEngine;

pub(super) struct Toy {
    pub(super) control: Sender<Control>,
    pub(super) wakeup: Arc<Wakeup>,
    pub(super) thread: JoinHandle<Result<(), ServeError>>,
}

impl Toy {
    pub(super) fn start(origin: &Path, socket: &Path, io_engine: IoEngine, limits: Limits) -> Toy {
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let (control, receiver) = mpsc::channel();
        let (origin, socket, rung) = (origin.to_path_buf(), socket.to_path_buf(), Arc::clone(&wakeup));
        let (ready, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut event_loop = toy_loop(&origin, &socket, io_engine, limits, receiver, rung);
            ready.send(()).unwrap();
            event_loop.run()
        });
        listening.recv().unwrap();
        Toy { control, wakeup, thread }
    }

    pub(super) fn stop(self) {
        self.control.send(Control::Stop).unwrap();
        self.wakeup.ring();
        self.thread.join().unwrap().unwrap();
    }
}

#[expect(clippy::too_many_arguments, reason = "a fixture")]
fn toy_loop(
    origin: &Path,
    socket: &Path,
    io_engine: IoEngine,
    limits: Limits,
    control: Receiver<Control>,
    wakeup: Arc<Wakeup>,
) -> EventLoop<ToyEngine> {
    let file = BlockFile::open(origin, Access::ReadWrite, Emptiness::Refused).unwrap();
    let id = VolumeId::new(0);
    let info =
        VolumeInfo { name: "toy".into(), id, size: file.size(), origin: file.identity(), read_only: false };
    let export = ExportInfo {
        name: "toy".into(),
        description: String::new(),
        size: file.size(),
        read_only: false,
        rotational: false,
    };
    let zeroes = file.zeroes();
    let media = vec![(Device::Origin(id), Medium::File(file))];
    let settings =
        DriverSettings { io_engine, request_bytes_max: limits.total_bytes_max, pool_pages: 16, media };
    let listener = Listener::open(NbdAddress::Unix(socket.into()), TcpPolicy::LoopbackOnly).unwrap();
    EventLoop {
        clock: Clock::start(),
        engine: ToyEngine::new(),
        driver: Driver::open(settings).unwrap(),
        cache: origin.into(),
        volumes: vec![Volume { info, zeroes }],
        listeners: vec![ServedListener { listener, exports: [export].into(), volumes: [0].into() }],
        limits,
        control,
        wakeup,
        signals: None,
        clients: Clients::default(),
        requests: Requests::default(),
        stage: Stage::Serving,
        checksums: Vec::new(),
        accept_again: None,
    }
}

#[test]
#[ignore = "serves a file for measurements until stdin ends: TOY_FILE=.. TOY_SOCKET=.. TOY_ENGINE=threads|io_uring"]
fn serve_a_file_for_measurements() {
    let io_engine = match std::env::var("TOY_ENGINE").as_deref() {
        Ok("threads") => IoEngine::Threads,
        _ => IoEngine::IoUring,
    };
    let (file, socket) = (std::env::var("TOY_FILE").unwrap(), std::env::var("TOY_SOCKET").unwrap());
    let toy = Toy::start(Path::new(&file), Path::new(&socket), io_engine, Limits::default());
    let _ = std::io::stdin().lines().count();
    toy.stop();
}
