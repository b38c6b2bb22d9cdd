"""
A rude MCP server of the tests' own, in plain JSON: `python rude_server.py [SCHEMA]`. Its tool
`answer` answers as its argument `how` says; with SCHEMA there is one more, `odd`, of that schema.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

OPEN = '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"'
NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'


def tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema}


TOOLS = [tool("answer", {"type": "object", "properties": {"how": {"type": "string"}}})]
TOOLS += [tool("odd", json.loads(schema)) for schema in sys.argv[1:]]
STARTED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "rude", "version": "1"},
}


def answer(number: str, how: str) -> None:
    opening = OPEN % number
    write = sys.stdout.write
    match how:
        case "large":
            write(opening + "x" * (17 << 20) + '"}]}}\n')
        case "surrogate":
            write(opening + "\\ud800" + '"}]}}\n')
        case "deep":
            nested = "[" * 5_000 + "]" * 5_000
            write(f'{{"jsonrpc":"2.0","id":{number},"result":{{"structuredContent":{nested}}}}}\n')
        case "flood":
            while True:
                write(NOTE)
        case "die":
            os._exit(3)
        case "banner":
            write('A banner.\n{"level": "info"}\n"jsonrpc"\n' + opening + 'fine"}]}}\n')
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    number = json.dumps(asked.get("id"))
    match asked.get("method"):
        case "initialize":
            print(f'{{"jsonrpc":"2.0","id":{number},"result":{json.dumps(STARTED)}}}', flush=True)
        case "tools/list":
            told = json.dumps({"tools": TOOLS})
            print(f'{{"jsonrpc":"2.0","id":{number},"result":{told}}}', flush=True)
        case "tools/call":
            answer(number, asked["params"]["arguments"]["how"])
        case _ if "id" in asked:
            error = '{"code":-32601,"message":"no"}'
            print(f'{{"jsonrpc":"2.0","id":{number},"error":{error}}}', flush=True)
