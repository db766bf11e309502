"""The official MCP client against `stockade mcp`: lists the tools and makes the calls named on the command line.

Prints one JSON object a line: first the tools, then each call's result as the client sees it.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(program: str, project: str, environment: dict, calls: list) -> None:
    server = StdioServerParameters(command=program, args=["mcp", "-C", project], env=environment, cwd=project)
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            schemas = {tool.name: tool.model_dump(mode="json", by_alias=True)["inputSchema"] for tool in tools}
            print(json.dumps({"tools": schemas}), flush=True)
            for name, arguments in calls:
                result = await session.call_tool(name, arguments)
                result = result.model_dump(mode="json", by_alias=True)
                text = "".join(part.get("text", "") for part in result["content"])
                told = {"isError": result["isError"], "text": text, "structured": result["structuredContent"]}
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])))
