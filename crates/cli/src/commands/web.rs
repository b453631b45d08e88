//! `lane web`.

use super::Context;
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::web::server::{self, Server};
use crate::web::{Ground, answer};
use crate::wire;

/// Review lanes in a browser: side by side, hunk by hunk, with keep, check, export and discard.
///
/// Serves a page on loopback (127.0.0.1) for this project until Ctrl-C, and prints its address. The address holds a
/// token that opens the page once, in one browser. Nobody else can use it then, and no other page can reach it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Listen on this port; a free one where not given.
    #[arg(short, long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Listens, prints the address, serves.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let dir = engine.project(&context.dir())?.asked;
    let listener = server::listen(args.port).map_err(|error| CliError::Listen(args.port, error))?;
    // The desk is a fork of this process as it is here: with one thread, and with nothing opened yet.
    let state = engine.state().path().to_owned();
    let ground = Ground { dir, state: Some(state) };
    let desk = engine::desk::open(&|request| answer(&ground, request))?;
    let server = Server::new(listener, desk)?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Web::new(&server.url()))?;
    } else {
        ui.line(&server.url())?;
        ui.say("the address works once; Ctrl-C ends the page");
    }
    ui.finish()?;
    if !server.serve()? {
        context.ui.warn("something that was begun on the page is still being done");
    }
    Ok(exit_code::DONE)
}
