//! The proxy inside, for clients that were told to use one: the same rules as without.

use crate::street::{each, refusal};

#[test]
fn http_connect_and_socks_reach_what_may_be_reached() {
    each(|street| {
        let ca = street.file("cert.pem");
        let script = format!(
            "curl -sS -m 20 -x http://127.0.0.1:3128 http://good.example/
             curl -sS -m 20 -p -x http://127.0.0.1:3128 http://good.example/
             curl -sS -m 20 -x http://127.0.0.1:3128 --cacert {ca} https://good.example/
             curl -sS -m 20 --socks5-hostname 127.0.0.1:3128 http://six.example/
             curl -sS -m 20 --socks5 127.0.0.1:3128 http://four.example/
             http_proxy=http://127.0.0.1:3128 curl -sS -m 20 http://93.184.216.34/"
        );
        for net in ["open", "allow:good.example,six.example,four.example,93.184.216.34"] {
            let ran = street.sh(&["--net", net, "--ro", &ca], &script).expect_code(0);
            assert_eq!(ran.out(), "hello\n".repeat(6), "{net}: {ran}");
        }
    });
}

#[test]
fn a_proxys_client_is_told_what_was_refused_and_so_is_the_person() {
    each(|street| {
        let ran =
            street.sh(&[], "curl -sS -m 20 -x http://127.0.0.1:3128 http://lan.example/").expect_code(0);
        let why = "lan.example is 10.9.9.9, which is private";
        assert_eq!(
            ran.out(),
            format!("refused by the lane: lan.example:80 ({why})\nto allow it: --net open:10.9.9.9\n")
        );
        assert_eq!(refusal(&ran), format!("refused: lan.example:80: {why}; allow it: --net open:10.9.9.9"));
        let net = ["--net", "allow:good.example"];
        let ran =
            street.sh(&net, "curl -sS -m 20 -x http://127.0.0.1:3128 http://evil.example/").expect_code(0);
        assert!(ran.out().ends_with("to allow it: --net allow:good.example,evil.example\n"), "{ran}");
        let ran = street.sh(&net, "curl -sS -m 20 --socks5-hostname 127.0.0.1:3128 http://evil.example/");
        assert_eq!(ran.code, Some(97), "{ran}");
        assert!(!street.told().contains("asked evil.example"));
        // The tunnel shows its name, or ends.
        let ran = street.sh(&net, "curl -sS -k -m 20 -x http://127.0.0.1:3128 --connect-to evil.example:443:good.example:443 https://evil.example/");
        assert_eq!(ran.code, Some(35), "{ran}");
        assert!(refusal(&ran).contains("evil.example:443: named on a connection to good.example"), "{ran}");
    });
}
