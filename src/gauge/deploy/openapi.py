"""The routes of the server, and their description for programs."""

from typing import Any

from pydantic import BaseModel

from gauge import __version__

ROUTES = {
    "POST /predict": "The class of every row, the probability of each class, its prediction set, and notes",
    "POST /explain": "Every unit of every row with its effect, trust and score, and notes",
    "GET /health": "Whether the server is up, and with which model",
    "GET /metrics": "Counters for Prometheus",
    "GET /openapi.json": "These routes and the columns of this model",
}


def openapi(model: str, rows: type[BaseModel]) -> dict[str, Any]:
    """The description of the routes, with the columns of the model in use."""
    schema = rows.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = {**schema.pop("$defs"), "Rows": schema}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Rows"}}}}
    switch = {"type": "boolean", "default": False}
    text = "Refuse rows with values that would count as missing, or are unlike those of training."
    strict = {"name": "strict", "in": "query", "description": text, "schema": switch}
    text = "Add the classes that each row may have, the right one among them this often."
    coverage = {"name": "coverage", "in": "query", "description": text, "schema": {"type": "number"}}
    text = "With a coverage: promise it for the rows of every class; sets are larger."
    by_class = {"name": "by_class", "in": "query", "description": text, "schema": switch}
    paths: dict[str, Any] = {}
    for route, summary in ROUTES.items():
        method, path = route.lower().split()
        operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "The response"}}}
        if method == "post":
            operation |= {
                "requestBody": body,
                "parameters": [strict, *([coverage, by_class] if path == "/predict" else [])],
            }
            operation["responses"]["422"] = {"description": "Where something cannot be read, and why"}
        paths[path] = {method: operation}
    info = {"title": f"GAUGE: {model}", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
