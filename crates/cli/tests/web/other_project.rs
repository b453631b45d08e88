//! A page shows one project: lanes of others are nothing to it, by whatever they are called.

use serde_json::{Value, json};
use testkit::Who;

use crate::site::Site;

#[test]
fn a_lane_of_another_project_is_not_there_by_its_id() {
    for who in Who::all() {
        let site = Site::new(who);
        site.run("one", "echo a >a");
        let other = Site { project: site.env.make_git("other"), ..site };
        other.run("theirs", "echo secret >secret");
        let theirs = other.id("theirs");
        other.env.ok(&other.project, &["new", "trashed"]);
        let trashed = other.id("trashed");
        other.env.ok(&other.project, &["discard", "trashed", "--yes"]);
        let site = Site { project: other.project.with_file_name("app"), ..other };
        let server = site.serve();
        let (cookie, key) = server.enter();
        let ours = [("Cookie", cookie.as_str()), ("X-Lane-Key", key.as_str())];
        let own = site.id("one");
        let place = json!({ "root": 0, "path": "736563726574" });
        let files = json!({ "as": "files" });
        for request in [
            json!({ "what": "lane", "lane": theirs }),
            json!({ "what": "changes", "lane": theirs }),
            json!({ "what": "counts", "lane": theirs, "files": [place] }),
            json!({ "what": "hunks", "lane": theirs, "file": place }),
            json!({ "what": "history", "lane": theirs }),
            json!({ "what": "output", "lane": theirs, "run": 1, "from": { "at": 0, "skip": 0 }, "wait": false }),
            json!({ "what": "screen", "lane": theirs, "run": 1 }),
            json!({ "what": "plan-keep", "lane": theirs, "ticks": [], "conflicts": "stop", "shape": files }),
            json!({ "what": "keep", "lane": theirs, "ticks": [], "conflicts": "stop", "shape": files }),
            json!({ "what": "keep", "lane": own, "ticks": [], "conflicts": "stop", "shape": files, "with": [{ "lane": theirs, "ticks": [] }] }),
            json!({ "what": "plan-export", "lane": theirs }),
            json!({ "what": "export", "lane": theirs, "target": "2f746d702f78" }),
            json!({ "what": "plan-discard", "lane": theirs }),
            json!({ "what": "discard", "lane": theirs, "stop": true }),
            json!({ "what": "recover", "lane": trashed }),
            json!({ "what": "go-back", "lane": theirs, "to": "back", "yes": true }),
            json!({ "what": "stop", "lane": theirs }),
            json!({ "what": "compare", "left": own, "right": theirs }),
            json!({ "what": "compare-file", "left": theirs, "right": own, "file": place }),
            json!({ "what": "overlap", "lanes": [own, theirs] }),
            json!({ "what": "plan-verify", "lane": theirs }),
            json!({ "what": "verify", "lane": theirs, "command": [] }),
            // Nor is a name an id.
            json!({ "what": "changes", "lane": "one" }),
        ] {
            let answer = server.post("/ask", &ours, &request);
            assert_eq!(answer.status, 409, "{request}: {answer:?}");
            assert!(answer.body.contains("there is no lane"), "{request}: {answer:?}");
        }
        let changes = server.post("/ask", &ours, &json!({ "what": "changes", "lane": own }));
        assert_eq!(changes.status, 200, "{changes:?}");
        let listed: Value =
            serde_json::from_str(&server.post("/ask", &ours, &json!({ "what": "lanes" })).body)
                .expect("a document");
        assert_eq!(listed["trash"], json!([]), "{listed}");
        let there = site.env.json(site.project.with_file_name("other"), &["ls"]);
        assert_eq!(there[0]["name"], "theirs", "{there}");
    }
}
