//! The server: routes, and a clean end.
//!
//! Invariant: it binds 127.0.0.1 and nothing else. At its end no new request is begun, and those that write have the
//! time to finish.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use engine::desk::Desk;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use super::ask::ask;
use super::assets::ASSETS;
use super::guard;
use super::pass::Pass;

/// How many requests are answered at once; more wait.
const AT_ONCE: usize = 8;

/// The longest request: a selection of very many hunks.
const LONGEST: usize = 32 << 20;

/// How long open connections may take to end, once it was asked for.
const GRACE: Duration = Duration::from_secs(2);

/// How long something that writes may take to finish after that.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the handlers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pass: Pass,
    pub(super) hosts: Vec<String>,
    desk: Desk,
    room: Semaphore,
}

/// A server that listens already, to connections and to signals.
#[derive(Debug)]
pub(crate) struct Server {
    runtime: Runtime,
    ends: Ends,
    listener: TcpListener,
    shared: Arc<Shared>,
    port: u16,
}

/// Listens on loopback; port 0 takes a free one.
pub(crate) fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

impl Server {
    /// Takes the door and the desk into one hand.
    pub(crate) fn new(listener: TcpListener, desk: Desk) -> crate::error::Result<Server> {
        let port = listener.local_addr()?.port();
        let shared =
            Shared { pass: Pass::new(port)?, hosts: guard::hosts(port), desk, room: Semaphore::new(AT_ONCE) };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let ends = {
            let _entered = runtime.enter();
            Ends::listen()?
        };
        Ok(Server { runtime, ends, listener, shared: Arc::new(shared), port })
    }

    /// The address that opens the page once. The token is in the fragment: a browser sends that to nobody, and what
    /// looks ahead at links does not use it up.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#{}", self.port, self.shared.pass.token().unwrap_or_default())
    }

    /// Serves until a signal asks for the end; true where everything that was begun was finished.
    pub(crate) fn serve(self) -> std::io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        self.runtime.block_on(run(self.listener, self.shared, self.ends))?;
        self.runtime.shutdown_timeout(Duration::from_millis(100));
        // Nobody else has a hold of it now.
        Ok(Arc::into_inner(shared).is_none_or(|shared| shared.desk.close(PATIENCE)))
    }
}

async fn run(listener: TcpListener, shared: Arc<Shared>, mut ends: Ends) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (ending, ended) = tokio::sync::oneshot::channel();
    let serving = axum::serve(listener, routes(&shared)).with_graceful_shutdown(async {
        let _ = ended.await;
    });
    let serving = serving.into_future();
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => return result,
        () = ends.any() => {}
    }
    let _ = ending.send(());
    // A page that listens for what is new would hold its connection for a while.
    tokio::time::timeout(GRACE, serving).await.unwrap_or(Ok(()))
}

/// The signals that ask for the end: Ctrl-C, the polite kill, the terminal's end.
#[derive(Debug)]
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    /// Not where our caller chose to outlive its terminal (`nohup`).
    hangup: Option<Signal>,
}

impl Ends {
    /// Listens from now on: before anybody knows that there is something to be ended.
    fn listen() -> std::io::Result<Ends> {
        Ok(Ends {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Ready when one came.
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = async { match &mut self.hangup { Some(hangup) => hangup.recv().await, None => std::future::pending().await } } => {}
        }
    }
}

/// True where this process was started with SIGHUP ignored (proc(5), `SigIgn`).
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

fn routes(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/ask", post(pass_on))
        .route_layer(middleware::from_fn_with_state(Arc::clone(shared), guard::admitted))
        .route("/enter", post(begin));
    for asset in ASSETS {
        router = router.route(asset.path, get(|| async { ([(CONTENT_TYPE, asset.kind)], asset.bytes) }));
    }
    router
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(middleware::from_fn_with_state(Arc::clone(shared), guard::door))
        .with_state(Arc::clone(shared))
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Bytes) -> Response {
    let Ok(_place) = shared.room.acquire().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    ask(&shared.desk, request).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Offer {
    token: String,
}

/// The exchange of the token.
async fn begin(State(shared): State<Arc<Shared>>, request: Bytes) -> Response {
    let offer = serde_json::from_slice::<Offer>(&request).ok();
    match offer.and_then(|offer| shared.pass.exchange(&offer.token).map(str::to_owned)) {
        Some(key) => {
            let body = serde_json::json!({ "key": key }).to_string();
            ([(SET_COOKIE, shared.pass.set_cookie()), (CONTENT_TYPE, "application/json".to_owned())], body)
                .into_response()
        }
        None => (StatusCode::FORBIDDEN, "this address was used already, or never was one\n").into_response(),
    }
}
