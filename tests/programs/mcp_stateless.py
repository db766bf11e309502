"""Talks to `stockade mcp` with the official client in its newest form, which makes no handshake.

Arguments: the program, the project's folder, then JSON `[tool, arguments]` a call. Prints a line of JSON for the list of
tools and for each result.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters

PROGRAM, FOLDER, *CALLS = sys.argv[1:]
SERVER = StdioServerParameters(command=PROGRAM, args=["mcp", "-C", FOLDER], env=dict(os.environ))


def tell(value):
    print(json.dumps(value), flush=True)


async def main():
    async with Client(SERVER) as client:
        tools = (await client.list_tools()).tools
        tell([tool.model_dump(mode="json", by_alias=True) for tool in tools])
        for call in CALLS:
            tool, arguments = json.loads(call)
            result = await client.call_tool(tool, arguments)
            tell(result.model_dump(mode="json", by_alias=True))


asyncio.run(main())
