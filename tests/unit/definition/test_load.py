"""Loading workflow files: contracts.md "Workflow file", and what a broken one is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.errors import WorkflowInvalid
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.load import load_workflow, shipped_workflows
from mulligan.schemas.plan import encode_plan

CONTRACT = Path(__file__).with_name("brief.yaml").read_text(encoding="utf-8")

HEAD = "name: brief\nnodes:\n"
COLLECT = (
    "  - {id: collect, kind: agent, prompt: p, output_schema: "
    "{type: object, properties: {items: {type: array}, title: {type: string}}}}\n"
)
JOIN = "  - {id: join, kind: function, call: 'flow_steps:join', needs: [%s]}\n"


def load(folder: Path, text: str) -> None:
    (folder / "brief.yaml").write_text(text)
    load_workflow(str(folder / "brief.yaml"))


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(WorkflowInvalid) as caught:
        load(folder, text)
    return [line.removeprefix(f"{folder}/") for line in caught.value.problems]


def agent(rest: str) -> str:
    return f"{HEAD}{COLLECT}  - {{id: part, kind: agent, prompt: p, {rest}}}\n"


def test_the_contract_example_loads(folder: Path) -> None:
    (folder / "brief.yaml").write_text(CONTRACT)
    definition = load_workflow(str(folder / "brief.yaml"))
    assert ["collect", "part", "join"] == [node.id for node in definition.nodes]
    assert definition.settings.output_repair_model is None, "blank is absent (OVR-4)"
    assert str(folder) == definition.code_path[0]


@pytest.mark.parametrize(
    "address",
    [
        "http://me:s3cret@host/v1",
        "http://s3cret@host/v1",
        "http://host/v1?key=s3cret",
        "h:/v1#s3cret",
    ],
)
def test_ovr10_an_address_with_a_secret_is_refused_and_not_quoted(
    folder: Path, address: str
) -> None:
    """A plan is kept in the log, where no key belongs."""
    (told,) = problems(
        folder, f"name: brief\nsettings: {{api_base: '{address}'}}\nnodes:\n{COLLECT}"
    )

    assert "settings.api_base: an address alone" in told
    assert "s3cret" not in told


BAD = {
    "unknown need": (
        HEAD + COLLECT + JOIN % "colect",
        "brief.yaml:4: nodes[1].needs: no node 'colect' (did you mean 'collect'?)",
    ),
    "need in a block list": (
        HEAD + COLLECT + "  - id: part\n    kind: agent\n    prompt: p\n    needs:\n"
        "      - collect\n      - colect\n",
        "brief.yaml:9: nodes[1].needs: no node 'colect' (did you mean 'collect'?)",
    ),
    "need twice": (
        agent("needs: [collect, collect]"),
        "brief.yaml:4: nodes[1].needs: 'collect' is named twice",
    ),
    "needs itself": (agent("needs: [part]"), "brief.yaml:4: nodes[1].needs: 'part' needs itself"),
    "cycle": (
        HEAD + "  - {id: a, kind: agent, prompt: p}\n"
        "  - {id: b, kind: agent, prompt: p, needs: [a, d]}\n"
        "  - {id: c, kind: agent, prompt: p, needs: [b]}\n"
        "  - {id: d, kind: agent, prompt: p, needs: [c]}\n",
        "brief.yaml:4: nodes[1].needs: a cycle: b → d → c → b",
    ),
    "duplicate id": (
        HEAD + COLLECT + COLLECT,
        "brief.yaml:4: nodes[1].id: nodes[0] has the id 'collect' already",
    ),
    "ids equal but for a dash": (
        HEAD + "  - {id: a-b, kind: agent, prompt: p}\n  - {id: a_b, kind: agent, prompt: p}\n",
        "brief.yaml:4: nodes[1].id: 'a_b' and 'a-b' are both 'a_b' in conditions and functions; "
        "rename one",
    ),
    "reserved id": (
        HEAD + "  - {id: input, kind: agent, prompt: p}\n",
        "brief.yaml:3: nodes[0].id: 'input' means something else in a workflow; choose another",
    ),
    "bad id": (
        HEAD + "  - {id: 1st, kind: agent, prompt: p}\n",
        "brief.yaml:3: nodes[0].id: '1st' is not a name: a letter or _, then letters, digits, _ or "
        "-, 64 at most",
    ),
    "unknown key": (
        agent("promt: x"),
        "brief.yaml:4: nodes[1].promt: unknown key (did you mean 'prompt'?)",
    ),
    "unknown setting": (
        "settings: {outputRepairModle: x}\n" + HEAD + COLLECT,
        "brief.yaml:1: settings.outputRepairModle: unknown key (did you mean 'outputRepairModel'?)",
    ),
    "both spellings of a setting": (
        "settings: {outputRepairModel: x, output_repair_model: x}\n" + HEAD + COLLECT,
        "brief.yaml:1: settings: outputRepairModel and output_repair_model are the same setting; "
        "keep one",
    ),
    "negative recovery limit": (
        "settings: {recovery_limit: -1}\n" + HEAD + COLLECT,
        "brief.yaml:1: settings.recovery_limit: must be greater than or equal to 0",
    ),
    "unknown kind": (
        HEAD + "  - {id: a, kind: agnt, prompt: p}\n",
        "brief.yaml:3: nodes[0].kind: must be agent, function, repair or wait "
        "(did you mean 'agent'?)",
    ),
    "no kind": (
        HEAD + "  - {id: a, prompt: p}\n",
        "brief.yaml:3: nodes[0].kind: missing; a node's kind is agent, function, repair or wait",
    ),
    "no prompt": (HEAD + "  - {id: a, kind: agent}\n", "brief.yaml:3: nodes[0].prompt: missing"),
    "no nodes": (
        "name: brief\nnodes: []\n",
        "brief.yaml:2: nodes: a workflow has at least one node",
    ),
    "output limit of 0 (REC-20)": (
        agent("max_output_tokens: 0"),
        "brief.yaml:4: nodes[1].max_output_tokens: must be greater than 0",
    ),
    "output limit above the model's (REC-20)": (
        "settings: {limits: {max_output_tokens: 100}}\n" + agent("max_output_tokens: 101"),
        "brief.yaml:5: nodes[1].max_output_tokens: settings.limits allow 100 at most",
    ),
    "no duration": (
        agent("timeout: soon"),
        "brief.yaml:4: nodes[1].timeout: a duration is seconds above 0, or text such as 500ms, "
        "30s, 10m, 2h",
    ),
    "mode": (
        agent("mode: nativ"),
        "brief.yaml:4: nodes[1].mode: must be 'auto', 'native', 'tool' or 'prompt' "
        "(did you mean 'native'?)",
    ),
    "placeholder in a block": (
        HEAD + COLLECT + "  - id: part\n    kind: agent\n    needs: [collect]\n    prompt: |\n"
        "      one\n      two {colect.items}\n",
        "brief.yaml:9: nodes[1].prompt: {colect.items}: nothing here is named 'colect' "
        "(did you mean 'collect'?); write {{colect.items}} for braces that are text",
    ),
    "placeholder's property": (
        HEAD
        + COLLECT
        + "  - {id: part, kind: agent, needs: [collect], prompt: '{collect.titel}'}\n",
        "brief.yaml:4: nodes[1].prompt: {collect.titel}: collect has no 'titel' in its schema "
        "(did you mean 'title'?); write {{collect.titel}} for braces that are text",
    ),
    "placeholder not needed": (
        HEAD + COLLECT + "  - {id: part, kind: agent, prompt: '{collect}'}\n",
        "brief.yaml:4: nodes[1].prompt: {collect}: 'collect' is not among what this node needs; "
        "add it to its needs; write {{collect}} for braces that are text",
    ),
    "item without for_each": (
        HEAD + "  - {id: a, kind: agent, prompt: '{item}'}\n",
        "brief.yaml:3: nodes[0].prompt: {item}: 'item' is there only on a node with for_each; "
        "write {{item}} for braces that are text",
    ),
    "placeholder in a called agent": (
        "agents: {checker: {prompt: 'check {input.text}'}}\n" + HEAD + COLLECT,
        "brief.yaml:1: agents.checker.prompt: {input.text} would be sent as it is: only a node's "
        "prompt has placeholders (a called agent gets its input as the user's message)",
    ),
    "for_each is no reference": (
        agent("needs: [collect], for_each: 'collect items'"),
        "brief.yaml:4: nodes[1].for_each: 'collect items' is not a reference such as collect.items",
    ),
    "for_each over text": (
        agent("needs: [collect], for_each: collect.title"),
        "brief.yaml:4: nodes[1].for_each: collect.title is of the type string; for_each takes "
        "a list",
    ),
    "condition": (
        agent("needs: [collect], when: 'collect.items ='"),
        "brief.yaml:4: nodes[1].when: not an expression: invalid syntax",
    ),
    "condition's name": (
        agent("needs: [collect], when: 'len(colect.items) > 1'"),
        "brief.yaml:4: nodes[1].when: nothing here is named 'colect' (did you mean 'collect'?)",
    ),
    "condition with a call": (
        agent("needs: [collect], when: 'open(input)'"),
        "brief.yaml:4: nodes[1].when: only len(…) can be called here",
    ),
    "no such tool": (
        agent("tools: ['flow_steps:serch']"),
        "brief.yaml:4: nodes[1].tools: module 'flow_steps' has no 'serch' (did you mean 'search'?)",
    ),
    "not a tool": (
        agent("tools: ['flow_steps:join']"),
        "brief.yaml:4: nodes[1].tools: flow_steps:join is not a tool; decorate the function with "
        "@tool",
    ),
    "two tools of one name": (
        agent("tools: ['flow_steps:search', 'flow_steps:other_search']"),
        "brief.yaml:4: nodes[1].tools: flow_steps:search and flow_steps:other_search are both "
        "named 'search'; set another by @tool(name=…)",
    ),
    "approval of a tool that it has not": (
        agent("tools: ['flow_steps:search'], ask_before: ['flow_steps:serch']"),
        "brief.yaml:4: nodes[1].ask_before: 'flow_steps:serch' is none of this agent's tools "
        "(did you mean 'flow_steps:search'?)",
    ),
    "approval asked for twice": (
        agent("tools: [flow_steps:search], ask_before: ['flow_steps:search', 'flow_steps:search']"),
        "brief.yaml:4: nodes[1].ask_before: 'flow_steps:search' is named twice",
    ),
    "a tool named as the harness's": (
        agent("tools: ['flow_steps:submit_output']"),
        "brief.yaml:4: nodes[1].tools: 'submit_output' is the name of a tool of the runtime",
    ),
    "a tool without types": (
        agent("tools: ['flow_steps:untyped']"),
        "brief.yaml:4: nodes[1].tools: tool 'untyped': 'q' has no type; write q: str, say",
    ),
    "tool path": (
        agent("tools: ['search']"),
        "brief.yaml:4: nodes[1].tools[0]: 'search' is not of the form module:attribute",
    ),
    "unknown subagent": (
        "agents: {checker: {prompt: p}}\n" + agent("subagents: [cheker]"),
        "brief.yaml:5: nodes[1].subagents: no agent 'cheker' under agents "
        "(did you mean 'checker'?)",
    ),
    "agents in a circle": (
        "agents: {a: {prompt: p, subagents: [b]}, b: {prompt: p, subagents: [a]}}\n"
        + HEAD
        + COLLECT,
        "brief.yaml:1: agents.a.subagents: agents that call each other: a → b → a",
    ),
    "function's parameter": (
        HEAD + COLLECT + "  - {id: x, kind: function, call: 'flow_steps:needs_more', "
        "needs: [collect]}\n",
        "brief.yaml:4: nodes[1].call: flow_steps:needs_more takes 'part', but is given only "
        "collect, input",
    ),
    "function by position": (
        HEAD + COLLECT + "  - {id: x, kind: function, call: 'flow_steps:by_position'}\n",
        "brief.yaml:4: nodes[1].call: flow_steps:by_position takes 'part' by position; values are "
        "given by name",
    ),
    "not a function": (
        HEAD + "  - {id: x, kind: function, call: 'flow_steps:constant'}\n",
        "brief.yaml:3: nodes[0].call: flow_steps:constant is not a function but of the type int",
    ),
    "key given twice": (
        "name: brief\nname: b\nnodes: []\n",
        "brief.yaml:2: name: this key is given twice",
    ),
    "not YAML": (
        "name: [brief\n",
        "brief.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'",
    ),
    "two documents": (
        "name: a\n---\nname: b\n",
        "brief.yaml:2: not YAML: but found another document",
    ),
    "a tag": (
        "name: !!python/name:os.system x\n" + HEAD.partition("\n")[2] + COLLECT,
        "brief.yaml:1: name: the tag tag:yaml.org,2002:python/name:os.system can't be used here",
    ),
    "empty": ("# nothing\n", "brief.yaml:1: the file is empty"),
    "a list": ("- 1\n", "brief.yaml:1: must be an object"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_workflow_is_told_file_line_place_and_hint(folder: Path, name: str) -> None:
    text, first = BAD[name]
    assert first == problems(folder, text)[0]


def test_a_missing_module_says_where_it_was_looked_for(folder: Path) -> None:
    text = HEAD + "  - {id: x, kind: function, call: 'no_such_module:f'}\n"
    (line,) = problems(folder, text)
    assert line.startswith("brief.yaml:3: nodes[0].call: no module 'no_such_module' in ")
    assert str(folder) in line


def test_a_module_that_raises_is_a_problem_not_a_traceback(folder: Path) -> None:
    (folder / "broken_steps.py").write_text("import flow_steps\n1 / 0\n")
    (line,) = problems(folder, HEAD + "  - {id: x, kind: function, call: 'broken_steps:f'}\n")
    assert line.endswith(
        "module 'broken_steps' could not be imported: ZeroDivisionError: division by zero"
    )


def test_a_module_that_another_hides_is_refused(folder: Path) -> None:
    (folder / "json.py").write_text("def f():\n    return 1\n")
    (line,) = problems(folder, HEAD + "  - {id: x, kind: function, call: 'json:f'}\n")
    assert "module 'json' of" in line
    assert line.endswith("rename it")


def test_every_problem_is_reported_at_once_in_the_order_of_lines(folder: Path) -> None:
    text = (
        "settings: {recovery_limt: 1}\n"
        + HEAD
        + COLLECT
        + "  - {id: part, kind: agent, tools: ['flow_steps:join']}\n"
        + "  - {id: last, kind: agent, prompt: '{nothing}', needs: [part, nobody]}\n"
    )
    found = problems(folder, text)
    assert [1, 5, 6, 6] == [int(line.split(":")[1]) for line in found]
    assert not any("'part'" in line for line in found), "a broken node is still known by its id"


def test_an_output_schema_that_is_not_of_an_object_is_told_to_wrap_it_out1(folder: Path) -> None:
    (line,) = problems(folder, agent("output_schema: {type: array, items: {type: string}}"))
    assert line.startswith("brief.yaml:4: nodes[1].output_schema: ")
    assert "wrap it" in line


def test_a_fault_inside_a_schema_is_told_at_its_own_line_rec25(folder: Path) -> None:
    text = (
        HEAD
        + COLLECT
        + """\
  - id: part
    kind: agent
    prompt: p
    output_schema:
      type: object
      properties:
        a: {type: object}
        b:
          type: strng
input_schema:
  $ref: https://example.org/schema
"""
    )
    first, second = problems(folder, text)
    assert first.startswith("brief.yaml:12: nodes[1].output_schema.properties.b.type: ")
    assert second.startswith("brief.yaml:14: input_schema.$ref: only references within the schema")


def test_a_schema_whose_dialect_is_no_text_is_a_problem_not_a_traceback(folder: Path) -> None:
    (line,) = problems(folder, agent("output_schema: {type: object, $schema: 3}"))
    assert "only JSON Schema 2020-12 is read" in line


def test_a_missing_file_names_its_neighbour(folder: Path) -> None:
    (folder / "brief.yaml").write_text(CONTRACT)
    with pytest.raises(WorkflowInvalid, match=r"no such file \(did you mean 'brief.yaml'\?\)"):
        load_workflow(str(folder / "breif.yaml"))


def test_an_unknown_name_is_told_what_a_file_looks_like() -> None:
    with pytest.raises(WorkflowInvalid, match=r"no workflow of that name; a file is named"):
        load_workflow("no-such-workflow")


def test_a_registered_name_is_found(folder: Path) -> None:
    (folder / "brief.yaml").write_text(CONTRACT)
    definition = load_workflow(str(folder / "brief.yaml"))
    assert definition is load_workflow("brief", {"brief": definition})


def test_a_workflow_in_a_module_is_found_from_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "my_flows.py").write_text(
        "from mulligan.schemas.builder import Workflow\n"
        "flow = Workflow('mine')\nflow.agent('a', prompt='p')\n"
    )
    monkeypatch.chdir(folder)
    assert "mine" == load_workflow("my_flows:flow").name
    with pytest.raises(WorkflowInvalid, match="did you mean 'flow'"):
        load_workflow("my_flows:flwo")
    with pytest.raises(WorkflowInvalid, match=r"not a mulligan\.Workflow"):
        load_workflow("my_flows:Workflow")


def test_an_alias_bomb_ends_quickly_with_a_message(folder: Path) -> None:
    levels = ["a: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        levels.append(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]")
    (line,) = problems(folder, "\n".join(levels))
    assert "too deep or too large" in line


@pytest.mark.parametrize("text", ["[" * 2_000, "{a: " * 2_000, "a: &a [*a]", "x" * 1_100_000])
def test_text_of_any_depth_and_size_is_refused_with_a_message(folder: Path, text: str) -> None:
    assert problems(folder, text)


def test_nothing_is_put_before_what_could_be_imported_already(folder: Path) -> None:
    before = list(sys.path)
    load(folder, CONTRACT)
    assert before == sys.path[: len(before)]
    assert str(folder) in sys.path[len(before) :]


def test_a_fresh_process_finds_the_same_code_by_the_plan_alone(folder: Path) -> None:
    """A worker elsewhere resolves what the file named, with the digest that the plan records."""
    (folder / "brief.yaml").write_text(CONTRACT)
    plan = compile_plan(load_workflow(str(folder / "brief.yaml")))
    (folder / "plan.json").write_bytes(encode_plan(plan))
    script = (
        "import sys, pathlib\n"
        "from mulligan.schemas.plan import decode_plan\n"
        "from mulligan.schemas.code import code_digest, import_code\n"
        "plan = decode_plan(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "work = plan.node('join').work\n"
        "assert code_digest(import_code(work.call.path, plan.code_path)) == work.call.digest\n"
        "spec = plan.tools['flow_steps:search']\n"
        "assert import_code(spec.path, plan.code_path).spec() == spec\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(folder / "plan.json")], check=True, cwd="/", timeout=60
    )


def test_shipped_workflows_are_listed_without_importing_them() -> None:
    assert all(path.name == "workflow.yaml" for path in shipped_workflows().values())
