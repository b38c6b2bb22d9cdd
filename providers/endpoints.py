"""
Where models are asked: the providers known by the first part of a model's name.

`<provider>/<id>` names the model `<id>`, and `<id>` is what stands in the request's body (REC-26).
All of them speak the OpenAI format at the address given; others can be reached as `openai/<id>`
with an `api_base`. Addresses and names of keys are those of the providers' own documentation.
"""

from __future__ import annotations

import msgspec

from mulligan.errors import EnvironmentUnfit


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """
    One provider. `api_base` is None where it is the user's own server, `key_name` where no key is
    needed; `model_header` is set where the provider routes by a header as well. `native_schemas`
    tells whether it is known to hold its models to a JSON Schema sent as `response_format`; where
    only some of its models are, it is not.
    """

    api_base: str | None = None
    key_name: str | None = None
    model_header: str | None = None
    native_schemas: bool = False


ENDPOINTS = {
    "anthropic": Endpoint(api_base="https://api.anthropic.com/v1", key_name="ANTHROPIC_API_KEY"),
    "cerebras": Endpoint(api_base="https://api.cerebras.ai/v1", key_name="CEREBRAS_API_KEY"),
    "deepseek": Endpoint(api_base="https://api.deepseek.com/v1", key_name="DEEPSEEK_API_KEY"),
    "fireworks_ai": Endpoint(
        api_base="https://api.fireworks.ai/inference/v1", key_name="FIREWORKS_API_KEY"
    ),
    "gemini": Endpoint(
        api_base="https://generativelanguage.googleapis.com/v1beta/openai",
        key_name="GEMINI_API_KEY",
    ),
    # A Grok subscription: the address is that of the user's own access to it.
    "grok": Endpoint(key_name="GROK_API_KEY", model_header="x-grok-model-override"),
    "groq": Endpoint(api_base="https://api.groq.com/openai/v1", key_name="GROQ_API_KEY"),
    "hosted_vllm": Endpoint(native_schemas=True),
    "lm_studio": Endpoint(api_base="http://127.0.0.1:1234/v1", native_schemas=True),
    "mistral": Endpoint(api_base="https://api.mistral.ai/v1", key_name="MISTRAL_API_KEY"),
    "ollama": Endpoint(api_base="http://127.0.0.1:11434/v1", native_schemas=True),
    "openai": Endpoint(
        api_base="https://api.openai.com/v1", key_name="OPENAI_API_KEY", native_schemas=True
    ),
    "openrouter": Endpoint(api_base="https://openrouter.ai/api/v1", key_name="OPENROUTER_API_KEY"),
    "together_ai": Endpoint(api_base="https://api.together.xyz/v1", key_name="TOGETHERAI_API_KEY"),
    "xai": Endpoint(api_base="https://api.x.ai/v1", key_name="XAI_API_KEY", native_schemas=True),
}


def holds_to_schemas(model: str, api_base: str | None) -> bool:
    """
    Whether a model is asked where native schemas are known to be kept to: by the first part of its
    name, unless that is a provider's and `api_base` leads to some other server.
    """
    endpoint = ENDPOINTS.get(model.partition("/")[0])
    if endpoint is None or (api_base is not None and endpoint.key_name is not None):
        return False
    return endpoint.native_schemas


def endpoint_of(model: str) -> tuple[Endpoint, str]:
    """
    The provider of a model, and the model's id with it.

    Raises:
        EnvironmentUnfit: no such provider, or no id.
    """
    provider, _, model_id = model.partition("/")
    if not model:
        raise EnvironmentUnfit(
            "no model is named: use --model PROVIDER/ID, `model` in the workflow's settings, or "
            "MULLIGAN_MODEL"
        )
    if provider not in ENDPOINTS or not model_id:
        raise EnvironmentUnfit(
            f"no provider for the model {model!r}: name it PROVIDER/ID with one of "
            f"{', '.join(ENDPOINTS)} or scripted; for another OpenAI-compatible server "
            "write openai/ID and set `api_base`"
        )
    return ENDPOINTS[provider], model_id


def address_of(endpoint: Endpoint, model: str, api_base: str | None) -> str:
    """
    The address to ask at, without a slash at its end.

    Raises:
        EnvironmentUnfit: the provider has no address of its own and none is set.
    """
    address = api_base or endpoint.api_base
    if not address:
        raise EnvironmentUnfit(f"no address for the model {model!r}: set `api_base` to its server")
    return address.rstrip("/")
