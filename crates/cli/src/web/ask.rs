//! Passing requests on to the desk, and its answers back. Nothing is read of either here.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use engine::desk::{self, Desk};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Has one request answered.
pub(super) async fn ask(desk: &Desk, request: Bytes) -> Response {
    match exchange(desk, &request).await {
        Ok((status, body)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, [(CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
        }
        // Its process ended without a word: whatever it was doing is put right by the next request.
        Err(_) => (StatusCode::BAD_GATEWAY, "the request was cut off\n").into_response(),
    }
}

async fn exchange(desk: &Desk, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    let connection = desk.connect().map_err(std::io::Error::other)?;
    connection.set_nonblocking(true)?;
    let mut connection = UnixStream::from_std(connection)?;
    connection.write_all(&desk::frame(request)).await?;
    let mut head = [0; 10];
    connection.read_exact(&mut head).await?;
    let (status, length) = desk::head(head);
    let mut body = Vec::new();
    let got = connection.take(length).read_to_end(&mut body).await?;
    if got as u64 == length { Ok((status, body)) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}
